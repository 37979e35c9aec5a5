// An application that uses the SDK as its documentation says, and has a host that steers it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";

import * as acp from "@agentclientprotocol/sdk";

const LOAD_OPTIONS = ["command", "env", "cwd", "mode", "permission"];
const GENERATE_OPTIONS = ["messages", "lane"];

/** The kinds of option that each policy takes, the best first. */
const POLICIES = {
  first_allow: [["allow_once", "allow_always"]],
  allow_once: [["allow_once"], ["allow_always"]],
  reject: [["reject_once"], ["reject_always"]],
};

/** What the connection is closed with when the host asks for it, so that it is told from the agent's end. */
const CLOSED = new Error("the host closed the connection");

/** An error that the SDK told of, in the words of spec/errors.md. */
export class Failure extends Error {
  constructor(fields) {
    super(fields.message);
    this.fields = fields;
  }
}

/** The SDK has no such operation or option. */
export class Unsupported extends Error {}

export const operations = { load, lane, generate, cancel, is_alive: isAlive, close };

const turns = new Map(); // the lane of each running turn, by the `seq` of its `generate`
let agent; // the one of the last `load`

async function load(args) {
  only(LOAD_OPTIONS, args);
  const { cwd = process.cwd(), permission = "first_allow", mode } = args;
  if (!(permission in POLICIES)) throw new Unsupported(`the permission ${permission}`);
  agent = { cwd, permission, lanes: new Map() };
  await start(agent, args);
  try {
    const { authMethods } = await request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
      clientInfo: { name: "port-typescript-sdk", version: "1.0.0" },
    });
    agent.authMethods = authMethods;
    const session = await lane({ lane: "main" });
    if (mode) {
      await request(acp.methods.agent.session.setMode, { sessionId: session.session_id, modeId: mode });
    }
    return session;
  } catch (error) {
    await close();
    throw error;
  }
}

/** Starts the process, as the SDK is handed its streams and knows nothing of it. */
async function start(agent, { command: [program, ...args], env }) {
  agent.child = spawn(program, args, {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, ...env },
  });
  agent.exited = new Promise((resolve) => agent.child.once("exit", resolve));
  try {
    await once(agent.child, "spawn");
  } catch (error) {
    throw new Failure({ kind: "spawn_failed", message: error.message, program });
  }
  const stream = acp.ndJsonStream(
    Writable.toWeb(agent.child.stdin),
    Readable.toWeb(agent.child.stdout),
  );
  agent.connection = acp
    .client({ name: "port-typescript-sdk" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => permit(agent, params))
    .connect(stream);
}

function permit({ permission, lanes }, { sessionId, options }) {
  const lane = [...lanes.values()].find(({ session }) => session.sessionId === sessionId);
  // ACP has the application answer so after a cancel.
  if (lane?.cancelled) return { outcome: { outcome: "cancelled" } };
  for (const kinds of POLICIES[permission]) {
    const chosen = options.find(({ kind }) => kinds.includes(kind));
    if (chosen) return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  }
  return { outcome: { outcome: "cancelled" } };
}

async function lane({ lane }) {
  const start = agent.connection.agent.buildSession(agent.cwd).start();
  const session = await told(acp.methods.agent.session.new, start);
  agent.lanes.set(lane, { session, cancelled: false });
  return { session_id: session.sessionId };
}

async function generate(args, seq) {
  only(GENERATE_OPTIONS, args);
  const lane = agent.lanes.get(args.lane ?? "main");
  const answer = { content: "", messages: [] };
  lane.cancelled = false;
  turns.set(seq, lane);
  try {
    const { content } = args.messages.findLast(({ role }) => role === "user");
    const { stopReason, usage } = await told(
      acp.methods.agent.session.prompt,
      turn(lane.session, content, answer),
    );
    const kind = { cancelled: "cancelled", refusal: "refused" }[stopReason];
    if (kind) throw new Failure({ kind, message: `the turn ended with ${stopReason}` });
    return { ...answer, stop_reason: stopReason, usage };
  } catch (error) {
    if (error instanceof Failure && answer.content) error.fields.partial = answer.content;
    throw error;
  } finally {
    turns.delete(seq);
  }
}

/** What `readText` does, but for the response, which that does not give. A text part is a content block of ACP. */
async function turn(session, content, answer) {
  // What becomes of this promise is told by `nextUpdate` too, in its place among the updates.
  void session.prompt(content);
  for (;;) {
    const message = await session.nextUpdate();
    if (message.kind === "stop") return message.response;
    const { update } = message;
    if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text") {
      append(answer, update.messageId ?? null, update.content.text);
    }
  }
}

function append(answer, messageId, text) {
  answer.content += text;
  const last = answer.messages.at(-1);
  if (last?.message_id === messageId) last.text += text;
  else answer.messages.push({ message_id: messageId, text });
}

async function cancel({ seq }) {
  const lane = turns.get(seq);
  if (!lane || lane.cancelled) return; // A turn that has ended or is being cancelled has nothing to cancel.
  lane.cancelled = true;
  const { sessionId } = lane.session;
  await agent.connection.agent.notify(acp.methods.agent.session.cancel, { sessionId });
}

async function isAlive() {
  return { alive: !agent.connection.signal.aborted };
}

async function close() {
  if (!agent?.connection) return; // There never was a process.
  agent.connection.close(CLOSED);
  agent.child.kill();
  await agent.exited;
}

/** Leaves no process behind when the host has gone without a `close`. */
export function leave() {
  agent?.child?.kill();
}

function request(method, params) {
  return told(method, agent.connection.agent.request(method, params));
}

/** The SDK's answer to a call, or what it tells about its failure. */
async function told(method, call) {
  const { connection, authMethods } = agent;
  try {
    return await call;
  } catch (error) {
    const { message, code, data } = error;
    if (error === CLOSED) throw new Failure({ kind: "closed", message });
    if (error === connection.signal.reason) throw new Failure({ kind: "agent_exited", message });
    if (!(error instanceof acp.RequestError)) throw error;
    const methods = authMethods?.map(({ id }) => id);
    if (code === -32000) throw new Failure({ kind: "auth_required", message, methods });
    throw new Failure({ kind: "rejected", method, code, message, data });
  }
}

function only(known, args) {
  const option = Object.keys(args).find((name) => !known.includes(name));
  if (option) throw new Unsupported(`the option ${option}`);
}
