// The official TypeScript SDK as a measured client: node typescript-sdk.mjs ORDER. It is the one that is installed for
// the port.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const port = new URL("../../conformance/ports/typescript-sdk/package.json", import.meta.url);
const sdk = createRequire(port).resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(sdk));

const { agent, work } = JSON.parse(process.argv[2]);
const outcome = { samples_ns: [], text_bytes: 0 };
// It takes a message of 32 MiB for a mistake otherwise.
const LIMITS = { maxMessageBytes: 1 << 30 };
let cpu;
switch (work.kind) {
  case "turns": {
    const client = await open();
    for (let i = 0; i < work.warm_up; i++) await client.turn("bench echo");
    cpu = cpuNow();
    for (let i = 0; i < work.count; i++) await sample(() => client.turn(work.script));
    cpu = cpuNow() - cpu;
    await client.close();
    break;
  }
  case "cycles":
    cpu = cpuNow();
    for (let i = 0; i < work.count; i++) {
      await sample(async () => {
        const client = await open();
        const text = await client.turn(work.script);
        await client.close();
        return text;
      });
    }
    cpu = cpuNow() - cpu;
    break;
  default:
    throw new Error(`this client does not do ${work.kind}`);
}
outcome.cpu_ns = cpu;
outcome.peak_rss = Number(/VmHWM:\s*(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024;
console.log(JSON.stringify(outcome));

async function sample(work) {
  const start = process.hrtime.bigint();
  const text = await work();
  outcome.samples_ns.push(Number(process.hrtime.bigint() - start));
  outcome.text_bytes += text.length;
}

async function open() {
  const [program, ...args] = agent;
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout), LIMITS);
  let text = "";
  const connection = acp
    .client({ name: "bench" })
    .onNotification(acp.methods.client.session.update, ({ params: { update } }) => {
      if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text") {
        text += update.content.text;
      }
    })
    .onRequest(acp.methods.client.session.requestPermission, ({ params: { options } }) => {
      const { optionId } = options.find(({ kind }) => kind === "allow_once");
      return { outcome: { outcome: "selected", optionId } };
    })
    .connect(stream);
  const request = (method, params) => connection.agent.request(method, params);
  await request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  const { sessionId } = await request(acp.methods.agent.session.new, { cwd: process.cwd(), mcpServers: [] });
  return {
    async turn(script) {
      text = "";
      await request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: script }] });
      return text;
    },
    async close() {
      connection.close();
      child.stdin.end();
      await exited;
    },
  };
}

function cpuNow() {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
}
