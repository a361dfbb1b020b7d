// The page's own trace of phases is the one Python writes: node timings.test.mjs MODULE DATA
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Element } from "./dom.mjs";

const { traceEvents, mountTimings } = await import(pathToFileURL(process.argv[2]));
const { title, data, whole, trace } = JSON.parse(readFileSync(process.argv[3], "utf8"));
assert.deepEqual(traceEvents(title, data.phases, data.timings, whole), trace);

// what can be saved: files always, a figure where there is a kernel
const saved = [];
globalThis.URL.createObjectURL = (blob) => (saved.push(blob), "blob:x");
const section = new Element("section");
mountTimings(section, data, title, null, [], () => {}, whole);
const list = section.querySelector("select");
assert.deepEqual(list.children.map((o) => o.textContent), ["⤓ save", "Chrome trace (Perfetto)", "JSON (records)"]);
list.value = "Chrome trace (Perfetto)";
list.fire("change");
assert.deepEqual(JSON.parse(await saved[0].text()), trace);

const heard = [];
const sent = [];
const model = { on: (_, f) => heard.push(f), off() {}, send: (m) => sent.push(m) };
const live = new Element("section");
const said = [];
mountTimings(live, data, title, model, [], (text) => said.push(text));
const choices = live.querySelector("select");
assert.equal(choices.children.at(-1).textContent, "figure (matplotlib SVG)");
choices.value = "figure (matplotlib SVG)";
choices.fire("change");
assert.deepEqual(sent[0].arguments, { of: "timings" });
heard[0]({ id: sent[0].id, answer: { parts: ["<svg", "/>"] } });
await new Promise((run) => setTimeout(run, 5));
assert.equal(await saved[1].text(), "<svg/>");
choices.value = "figure (matplotlib SVG)";
choices.fire("change");
heard[0]({ id: sent[1].id, error: "no phases" });
await new Promise((run) => setTimeout(run, 5));
assert.deepEqual(said, ["no figure: no phases"]);

// a line of the log and the bar of its phase mark each other
const panel = new Element("section");
const make = (tag, cls, phase) => {
  const node = new Element(tag);
  node.className = cls;
  if (phase !== null) node.dataset.phase = phase;
  return node;
};
const bars = [make("span", "xl-bar", "0"), make("span", "xl-bar", "2")];
const log = new Element("details");
const lines = [make("button", "xl-log-line", "0"), make("button", "xl-log-line", "2"), make("button", "xl-log-line", null)];
log.append(...lines);
panel.append(...bars, log);
mountTimings(panel, data, title, null, [], () => {});
const told = () => [...bars, ...lines].map((n) => n.classList.contains("xl-told"));
lines[1].click();
assert.deepEqual(told(), [false, true, false, true, false]);
let shown = 0;
lines[0].scrollIntoView = () => (shown += 1);
assert.ok(!log.open);
bars[0].click();
assert.deepEqual(told(), [true, false, true, false, false]);
assert.ok(log.open && shown === 1);
console.log("ok");
