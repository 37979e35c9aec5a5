// The driver of the official TypeScript SDK (spec/driver-protocol.md). It adapts and fixes nothing.

import { createInterface } from "node:readline";

const PORT = { name: "typescript-sdk", language: "typescript", version: "2.4.0" }; // as in package.json
const CAPABILITIES = ["cancel", "lanes", "mode", "parts", "permission", "is_alive", "messages"];

let application;

for await (const line of createInterface({ input: process.stdin })) {
  const { seq, op, args } = JSON.parse(line);
  if (op === "hello") {
    write({ seq, ok: { protocol: 1, port: PORT, capabilities: CAPABILITIES } });
  } else if (op === "bye") {
    write({ seq, ok: {} });
    break;
  } else {
    // Loading the SDK takes a while, and who needs what it cannot do asks for nothing but the above.
    application ??= await import("./application.mjs");
    // Nothing is awaited here: requests are read while operations run.
    void run(seq, application.operations[op], args);
  }
}
application?.leave();
process.exit(0);

async function run(seq, operation, args) {
  try {
    if (!operation) throw new application.Unsupported("the operation");
    write({ seq, ok: (await operation(args, seq)) ?? {} });
  } catch (error) {
    if (error instanceof application.Failure) write({ seq, err: error.fields });
    else if (error instanceof application.Unsupported) write({ seq, unsupported: error.message });
    else write({ seq, crash: String(error?.stack ?? error) });
  }
}

function write(answer) {
  // JSON would escape half a character; written as text it is U+FFFD, as in all that Node puts out.
  const wellFormed = (_, value) => (typeof value === "string" ? value.toWellFormed() : value);
  process.stdout.write(JSON.stringify(answer, wellFormed) + "\n");
}
