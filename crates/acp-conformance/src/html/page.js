"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const green = new Set(["pass", "known", "n/a"]);

/** An element with properties and children; strings become text, never markup. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Text with what stands between backticks as code. */
const prose = (text) => text.split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));

const area = (row) => row.id.split("/")[0];
const kind = (verdict) => (green.has(verdict) ? verdict.replace("/", "-") : "red");

// The matrix.

const buttons = []; // by row, then by port
const bodyRows = []; // by row
const areaRows = new Map(); // by area

function buildMatrix() {
  // Only the names stay in view.
  const head = make("tr", {}, make("th", { scope: "col" }, "transcript"));
  const facts = make("tr", {}, make("td", {}));
  for (const port of data.ports) {
    const counts = data.verdicts.filter((word) => port.counts[word] > 0).map((word) => `${port.counts[word]} ${word}`);
    head.append(make("th", { scope: "col" }, port.name));
    facts.append(make("td", {}, make("small", {}, [port.language, port.version].filter(Boolean).join(" ")),
      make("small", {}, port.tier), ...counts.map((count) => make("small", {}, count))));
  }
  document.querySelector("#matrix thead").append(head, facts);

  const body = document.querySelector("#matrix tbody");
  data.rows.forEach((row, r) => {
    if (!areaRows.has(area(row))) {
      const heading = make("th", { scope: "rowgroup", colSpan: data.ports.length + 1 }, area(row));
      areaRows.set(area(row), make("tr", { className: "area" }, heading));
      body.append(areaRows.get(area(row)));
    }
    const line = make("tr", {}, make("th", { scope: "row", title: row.covers.join(", ") }, row.id,
      make("small", {}, ...prose(row.title))));
    buttons.push(row.cells.map((cell, p) => {
      const button = make("button", { type: "button", className: kind(cell.verdict), tabIndex: -1 },
        cell.verdict === "pass" ? "✓" : cell.verdict);
      button.setAttribute("aria-label", `${row.id} on ${data.ports[p].name}: ${cell.verdict}`);
      button.dataset.at = `${r} ${p}`;
      line.append(make("td", {}, button));
      return button;
    }));
    bodyRows.push(line);
    body.append(line);
  });
}

// Filters.

function fillFilters() {
  for (const name of areaRows.keys()) $("area").append(make("option", {}, name));
  data.ports.forEach((port, p) => $("port").append(make("option", { value: p }, port.name)));
  for (const word of data.verdicts) $("verdict").append(make("option", {}, word));
}

function applyFilters() {
  const words = $("text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const port = $("port").value;
  const wanted = $("verdict").value;
  const hit = (cell) => !wanted || cell.verdict === wanted || (wanted === "red" && !green.has(cell.verdict));
  const shownAreas = new Set();
  let count = 0;
  data.rows.forEach((row, r) => {
    const text = [row.id, row.title, ...row.covers].join(" ").toLowerCase();
    const cells = port === "" ? row.cells : [row.cells[port]];
    const shown = words.every((word) => text.includes(word))
      && ($("area").value === "" || area(row) === $("area").value) && cells.some(hit);
    bodyRows[r].hidden = !shown;
    if (shown) {
      count += 1;
      shownAreas.add(area(row));
    }
  });
  for (const [name, row] of areaRows) row.hidden = !shownAreas.has(name);
  const heads = document.querySelectorAll("#matrix thead tr");
  data.ports.forEach((_, p) => {
    const hidden = port !== "" && Number(port) !== p;
    for (const head of heads) head.children[p + 1].hidden = hidden;
    for (const line of buttons) line[p].parentElement.hidden = hidden;
  });
  $("shown").textContent = `${count} of ${data.rows.length} transcripts`;
  $("none").hidden = count > 0;
  enterAt(visible(0, 1) ?? null);
}

// The keyboard: the matrix is one stop of the Tab key, and the arrows move in it.

let current = null;

function enterAt(button) {
  if (current) current.tabIndex = -1;
  current = button;
  if (current) current.tabIndex = 0;
}

/** The first visible cell from row `from` on in the direction of `step`, in the column wanted or the first. */
function visible(from, step, column) {
  const shown = (p) => !buttons[0][p].parentElement.hidden;
  const p = column ?? data.ports.findIndex((_, index) => shown(index));
  for (let r = from; r >= 0 && r < buttons.length; r += step) {
    if (!bodyRows[r].hidden) return buttons[r][p];
  }
  return undefined;
}

function move(event) {
  const at = event.target.dataset.at;
  if (!at) return;
  const [r, p] = at.split(" ").map(Number);
  const sideways = (step) => {
    for (let q = p + step; q >= 0 && q < data.ports.length; q += step) {
      if (!buttons[r][q].parentElement.hidden) return buttons[r][q];
    }
    return undefined;
  };
  const steps = {
    ArrowDown: () => visible(r + 1, 1, p),
    ArrowUp: () => visible(r - 1, -1, p),
    ArrowRight: () => sideways(1),
    ArrowLeft: () => sideways(-1),
    Home: () => visible(0, 1, p),
    End: () => visible(buttons.length - 1, -1, p),
  };
  const next = steps[event.key]?.();
  if (!next) return;
  event.preventDefault();
  enterAt(next);
  next.focus();
  // The heading sticks to the top and would hide it.
  next.scrollIntoView({ block: "center", inline: "nearest" });
}

// One cell.

/** The lines as a block. Each is given a class, or none, by `classify`. */
function block(lines, classify, numbered, after) {
  const pre = make("pre", { tabIndex: 0 });
  lines.forEach((line, index) => {
    const code = make("code", { className: classify(line, index) });
    if (numbered) code.append(make("span", { className: "number" }, index + 1));
    code.append(line || " ");
    pre.append(code);
  });
  if (after) pre.append(make("code", { className: "mismatch" }, after));
  return pre;
}

function side(line) {
  if (/^C\d*>/.test(line)) return "client";
  return /^A\d*[> ]/.test(line) ? "agent" : "host";
}

function requirement(id) {
  const about = data.requirements[id];
  if (!about) return make("li", {}, make("b", {}, id));
  return make("li", {}, make("b", {}, id), ` (${about.level}) `, ...prose(about.text), " ",
    make("small", {}, about.source));
}

function open(r, p) {
  const row = data.rows[r];
  const cell = row.cells[p];
  const failed = cell.failure !== undefined;
  const parts = [
    make("h2", { id: "detail-title" }, `${row.id} on ${data.ports[p].name}`),
    make("p", {}, make("span", { className: `badge ${kind(cell.verdict)}` }, cell.verdict),
      ` ${(cell.ms / 1000).toFixed(2)} s`),
    make("p", {}, ...prose(row.title)),
  ];
  if (cell.reason && !(failed && cell.verdict !== "known")) {
    const link = cell.link ? make("a", { href: cell.link }, "tracked") : null;
    parts.push(make("h3", {}, "Reason"), make("p", {}, ...prose(cell.reason), " ", link));
  }
  parts.push(make("h3", {}, "Requirements"), make("ul", {}, ...row.covers.map(requirement)));
  const wire = cell.wire.map((number) => data.lines[number]);
  if (wire.length > 0) {
    const last = failed ? wire.length - 1 : -1;
    const mark = (line, index) => side(line) + (index === last ? " marked" : "");
    // The failure brings its own copy of the wire, which is shown here in full.
    const why = failed ? cell.failure.split("\n").filter((line) => !wire.includes(line.slice(2))).join("\n") : "";
    parts.push(make("h3", {}, "On the wire (C> the client, A> the agent)"), block(wire, mark, false, why));
  } else if (failed) {
    parts.push(make("h3", {}, "What happened"), block([], () => "", false, cell.failure));
  }
  const text = row.text.trimEnd().split("\n");
  const name = `${row.id}.jsonl`;
  parts.push(make("h3", {}, "Transcript ", row.href ? make("a", { href: row.href }, name) : name),
    block(text, (_, index) => (index + 1 === cell.stopped_at ? "marked" : ""), true));
  if (cell.stderr) {
    parts.push(make("h3", {}, "The driver's standard error"), block(cell.stderr.trimEnd().split("\n"), () => "", false));
  }
  $("detail-body").replaceChildren(...parts);
  enterAt(buttons[r][p]);
  if (!$("detail").open) $("detail").showModal();
  $("detail").scrollTop = 0;
  history.replaceState(null, "", `#${row.id}@${data.ports[p].name}`);
}

/** Opens the cell that the address names, as `#turn/one@python`. */
function openNamed() {
  const [id, name] = decodeURIComponent(location.hash.slice(1)).split("@");
  const r = data.rows.findIndex((row) => row.id === id);
  const p = data.ports.findIndex((port) => port.name === name);
  if (r >= 0 && p >= 0) open(r, p);
}

const skipped = data.skipped.map((port) => ` ${port.name} was skipped: ${port.why}.`).join("");
$("facts").textContent = `${data.harness}, ${data.date}: ${data.rows.length} transcripts, `
  + `${data.ports.length} ports.${skipped}`;
buildMatrix();
fillFilters();
applyFilters();
$("filters").addEventListener("input", applyFilters);
$("filters").addEventListener("submit", (event) => event.preventDefault());
document.querySelector("#matrix tbody").addEventListener("keydown", move);
document.querySelector("#matrix tbody").addEventListener("click", (event) => {
  const at = event.target.closest("button")?.dataset.at;
  if (at) open(...at.split(" ").map(Number));
});
$("detail").addEventListener("close", () => {
  history.replaceState(null, "", location.pathname + location.search);
  current?.focus();
});
$("detail").addEventListener("click", (event) => {
  if (event.target === $("detail")) $("detail").close();
});
addEventListener("hashchange", openNamed);
openNamed();
