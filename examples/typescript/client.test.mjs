// A client of the official TypeScript SDK, tested against transcripts.
//
// `acp-fake-server play FILE` is the agent: it answers as the transcript says, and exits with 1, with the
// difference on standard error, when the client does something else.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import * as acp from "@agentclientprotocol/sdk";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FAKE = process.env.ACP_FAKE_SERVER ?? `${ROOT}target/debug/acp-fake-server`;

/** One turn of the client under test with the agent of a transcript: the answer, and how the agent ended. */
async function ask(transcript, question) {
  const child = spawn(FAKE, ["play", `${ROOT}fixtures/${transcript}.jsonl`], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const connection = acp
    .client({ name: "example" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      const { optionId } = params.options.find(({ kind }) => kind === "allow_once");
      return { outcome: { outcome: "selected", optionId } };
    })
    .connect(stream);
  await connection.agent.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  const session = await connection.agent.buildSession(ROOT).start();
  void session.prompt(question);
  let answer = "";
  for (;;) {
    const message = await session.nextUpdate();
    if (message.kind === "stop") break;
    const { sessionUpdate, content } = message.update;
    if (sessionUpdate === "agent_message_chunk" && content.type === "text") answer += content.text;
  }
  child.stdin.end();
  const [code] = await exited;
  return { answer, code };
}

test("text of another session never enters the answer", async () => {
  assert.deepEqual(await ask("turn/other-session", "hi"), { answer: "mine", code: 0 });
});

test("an agent that asks for a permission goes on", async () => {
  const { answer, code } = await ask("recorded/text-around-tools", "use a tool");
  assert.deepEqual({ answer, code }, { answer: "text 1 text 3 text 4", code: 0 });
});

test("the fake says what the client did wrong", async () => {
  // The transcript goes on with a second prompt, which this client never sends.
  assert.equal((await ask("turn/two", "hi")).code, 1);
});
