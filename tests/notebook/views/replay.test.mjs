// The messages that the page draws in each step against the events of the record.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import "./dom.mjs";

const { messagesOf, statesOf, stateWords, chips } = await import(process.argv[2]);
for (const { events, steps, wanted } of JSON.parse(readFileSync(process.argv[3], "utf8"))) {
  steps.forEach((step, i) => assert.deepEqual(messagesOf(events, step).map((m) => [m.src, m.dst, m.size]), wanted[i]));
}

// C36: how a value is over each axis, as its type says it; the chips of a state and the signs between them
const names = ["i", "j"];
assert.deepEqual(statesOf("f32[8]{V:i}", names), ["V", "I"]);
assert.deepEqual(statesOf("Todo{f32[8]{U:j R:i}}", names), ["R", "U"]);
assert.deepEqual(statesOf("f32[8]{V:i,j}", names), ["V", "V"]);
assert.equal(statesOf("f32[8@i]", names), null);
assert.deepEqual(statesOf("f32[8]", names, true), ["I", "I"]);
const mesh = { names, sizes: [4, 20] };
const drawn = chips(["V", "R"], mesh);
const [first, second] = drawn.querySelectorAll(".xl-mats");
assert.equal(first.textContent, "i V ");
assert.equal(new Set(first.querySelectorAll(".xl-mat").map((n) => n.getAttribute("style"))).size, 4, "a color each");
assert.equal(second.textContent, `j R ${"↓".repeat(7)}`);
assert.equal(new Set(second.querySelectorAll(".xl-mat").map((n) => n.getAttribute("style"))).size, 1, "one color");
assert.equal(chips(["U", "I"], mesh).textContent, `i U +++j I ${"=".repeat(7)}`);
assert.equal(chips(["V", "I"], mesh, true).textContent, `i V 0123j I ${"=".repeat(7)}`, "ranks are numbered");
assert.match(stateWords(["U", "I"], mesh), /^over i it is a sum .*\nover j it is the same on all devices$/);
console.log("ok");
