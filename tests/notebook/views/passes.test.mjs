// Passes in the joined parts: node passes.test.mjs PARTS DATA
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Element } from "./dom.mjs";

const { readPasses, moduleBefore, changedLines, aroundChanges, mountPasses, makeBus } = await import(pathToFileURL(process.argv[2]));
const { data, modules } = JSON.parse(readFileSync(process.argv[3], "utf8"));
const passes = readPasses(data);
const tick = () => new Promise((run) => setTimeout(run, 5));

// the page makes the same modules as the records do, in any order
const before = moduleBefore(passes);
for (const i of [...passes.keys()].reverse()) if (passes[i].changed) assert.deepEqual(before(i), modules[i], passes[i].name);
const again = moduleBefore(passes);
for (const i of passes.keys()) if (passes[i].changed) assert.deepEqual(again(i), modules[i]);

// a difference has every line of the module after it, and those that went
passes.forEach((p, i) => {
  if (!p.changed) return;
  const lines = changedLines(before(i), p);
  assert.equal(lines.filter(([s]) => s === "+").length, p.added);
  assert.equal(lines.filter(([s]) => s === "-").length, p.removed);
  assert.deepEqual(lines.filter(([s]) => s !== "+").map(([, t]) => t), modules[i]);
  const near = aroundChanges(lines);
  assert.equal(near.filter(([s]) => s === "+" || s === "-").length, p.changed);
});
const hidden = aroundChanges([...Array(20)].map((_, i) => [i === 10 ? "+" : " ", `l${i}`, i, ""]));
assert.deepEqual(hidden.filter(([s]) => s === "@").map(([, t]) => t), ["7 lines the same", "6 lines the same"]);

// a cut is not walked over
const cut = [{ stage: "xla", changed: 2, cut: "", before: ["a", "b"], edits: [[0, 1, ["c"]]] }, { stage: "xla", changed: 9, cut: "too long", before: null, edits: [] },
  { stage: "xla", changed: 1, cut: "", before: null, edits: [] }, { stage: "xla", changed: 1, cut: "", before: ["x"], edits: [] }];
assert.deepEqual([0, 1, 2, 3].map(moduleBefore(cut)), [["a", "b"], ["c", "b"], null, ["x"]]);

// the panel: changed passes only, keys go from one to the next, a chosen instruction is followed
const host = new Element("div");
const bin = [];
const bus = makeBus();
const part = mountPasses(host, data, bus, bin);
part.start();
const listed = () => host.querySelectorAll(".xl-pass-row").map((r) => +r.dataset.pass);
const changed = [...data.passes.keys()].filter((i) => data.passes[i].changed);
assert.deepEqual(listed(), changed);
const now = () => +host.querySelectorAll(".xl-pass-row").find((r) => r.getAttribute("aria-selected") === "true").dataset.pass;
assert.equal(now(), changed[0]);
const start = changed.findIndex((i) => data.passes[i].name === "spmd-partitioning");
while (now() < changed[start]) part.key("ArrowRight");
const dot = host.querySelectorAll(".xl-row").find((r) => / dot\(/.test(r.textContent) && !r.textContent.includes("−"));
dot.click();
await tick();
const name = /(%[\w.-]+) =/.exec(dot.textContent)[1];
assert.match(host.querySelector(".xl-pass-where").textContent, /^following %dot/);
assert.deepEqual(bus.keys, ["0:0"]);
part.key("ArrowRight");
assert.equal(now(), changed[start + 1]);
assert.match(host.querySelector(".xl-pass-where").textContent, new RegExp(`${name.replace(/[.]/g, "\\.")}`));
part.key("ArrowLeft");
assert.equal(now(), changed[start]);
assert.ok(host.querySelectorAll(".xl-sel").some((r) => r.textContent.includes(`${name} =`)));
assert.ok(host.querySelectorAll(".xl-came").every((r) => r.querySelector(".xl-mark").textContent === "+"), "signs beside colours");
assert.ok(host.querySelectorAll(".xl-went").every((r) => r.querySelector(".xl-mark").textContent === "−"));

// an equation chosen elsewhere is found here
bus.select(["0:1"], null);
await tick();
assert.ok(host.querySelectorAll(".xl-sel").some((r) => /tanh/.test(r.textContent)));

// idle passes on request, with their count
host.querySelector(".xl-pass-more").click();
assert.equal(listed().length, data.passes.length);
assert.match(host.querySelector(".xl-pass-more").textContent, /runs of \d+ passes that changed nothing/);

// find
part.search.value = "all-reduce";
part.search.fire("input");
assert.match(host.querySelector(".xl-pass-tools").textContent, /\d+ found/);
for (const end of bin) end();
console.log("ok");
