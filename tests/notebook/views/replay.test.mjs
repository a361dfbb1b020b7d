// The messages that the page draws in each step against the events of the record.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import "./dom.mjs";

const { messagesOf } = await import(process.argv[2]);
for (const { events, steps, wanted } of JSON.parse(readFileSync(process.argv[3], "utf8"))) {
  steps.forEach((step, i) => assert.deepEqual(messagesOf(events, step).map((m) => [m.src, m.dst, m.size]), wanted[i]));
}
console.log("ok");
