// Runs the joined module over a saved payload: node report.test.mjs MODULE PAYLOAD
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Element } from "./dom.mjs";

const view = (await import(pathToFileURL(process.argv[2]))).default;
const payload = JSON.parse(readFileSync(process.argv[3], "utf8"));
const tick = () => new Promise((run) => setTimeout(run, 5));

const heard = [];
const sent = [];
const model = { get: () => payload, on: (_, f) => heard.push(f), off: (_, f) => heard.splice(heard.indexOf(f), 1), send: (m) => sent.push(m) };
const el = new Element("div");
const end = view.render({ model, el });
// it says that somebody looks, says so again when the kernel asks around, and nothing more until a person does something
for (const hear of [...heard]) hear({ roll: true });
assert.deepEqual(sent.splice(0), [{ ask: "here" }, { ask: "here" }]);
const root = el.querySelector(".xl-report");
const tabs = root.querySelectorAll("[role=\"tab\"]");
const panel = (name) => root.querySelector(`[data-tab="${name}"]`);
const tab = (name) => tabs.find((t) => t.textContent === name);

// tabs: one panel at a time, the rest kept
assert.deepEqual(tabs.map((t) => t.textContent), ["Program", "Shardings", "Collectives", "Overlap", "Timings", "Memory", "Passes", "Steps", "What if"]);
assert.equal(root.querySelectorAll(".xl-panel").filter((p) => !p.hidden).length, 1);

// only what is in sight exists
const columns = root.querySelectorAll(".xl-column");
assert.equal(columns.length, 3);
assert.ok(columns.every((c) => c.querySelectorAll(".xl-row").length <= 34));

// choosing an equation lights Python, jaxpr, HLO and the collective it makes
const jaxpr = columns[1];
const gather = payload.data.transfers[1].key;
const row = jaxpr.querySelectorAll(".xl-row").find((r) => payload.data.programs[0].rows.id[+r.dataset.i] === +gather.split(":")[1]);
row.click();
await tick();
for (const column of columns) assert.equal(column.querySelectorAll(".xl-sel").length, 1, "one chosen line a column");
assert.match(columns[0].querySelector(".xl-sel").textContent, /jnp\.split/);
assert.ok(root.querySelectorAll("tr.xl-sel").length >= 1, "the collective's row is lit too");
assert.match(root.querySelector(".xl-status").textContent, /shard f32\[16,16,64\] × 8, 1 copy.*line 3/);

// keys: next, back, search, clear
root.fire("keydown", { key: "ArrowRight" });
await tick();
assert.match(root.querySelector(".xl-status").textContent, /slice/);
root.fire("keydown", { key: "ArrowLeft" });
assert.match(root.querySelector(".xl-status").textContent, /dot_general/);
root.fire("keydown", { key: "ArrowUp" });
assert.match(root.querySelector(".xl-status").textContent, /scan/);
root.fire("keydown", { key: "ArrowDown" });
assert.match(root.querySelector(".xl-status").textContent, /mul/);
root.fire("keydown", { key: "/" });
assert.equal(document.focused.getAttribute("type"), "search");
const search = document.focused;
search.value = "psum";
search.fire("input");
search.fire("keydown", { key: "Enter" });
assert.match(root.querySelector(".xl-status").textContent, /psum/);
root.fire("keydown", { key: "Escape" });
assert.equal(root.querySelectorAll("tr.xl-sel").length, 0);

// folding hides the nested lines and says how many
const fold = jaxpr.querySelectorAll(".xl-fold")[0];
if (fold) {
  fold.click();
  await tick();
  assert.match(jaxpr.textContent, /… \d+ lines/);
}

// collectives: choosing plays that one; its rounds are drawn as arrows
tab("Collectives").click();
const arrows = () => panel("collectives").querySelectorAll(".xl-arrow").length;
root.querySelector("tr[data-row=\"0\"]").children[1].click();
assert.equal(arrows(), 8, "each device sends to the next on its ring");
assert.match(panel("collectives").querySelector(".xl-formula").textContent, /t = 2\(n−1\)\(α \+ S\/\(nβ\)\).*n=4.*= /);
assert.equal(panel("collectives").querySelector("h3").textContent, "all_reduce add over data");
const player = panel("collectives").querySelector(".xl-player");
assert.match(player.textContent, /round 1 of 6/, "2(n−1) rounds, and not the pictures of them");
const slide = (to) => {
  const slider = player.querySelector("[type=\"range\"]");
  slider.value = to;
  slider.fire("input", { target: slider });
};
slide(6);
assert.match(player.textContent, /after 6 rounds/);
slide(0);
const heads = panel("collectives").querySelectorAll("th");
heads[3].click();
assert.equal(panel("collectives").querySelectorAll("tr[data-row]")[0].dataset.row, "1", "sorted by × times, most first");

// predictions follow the interconnect at once, in rows, totals and the formula
const price = () => panel("collectives").querySelectorAll("tr[data-row]").find((r) => r.dataset.row === "0").children[4].textContent;
const way = panel("collectives").querySelector("[aria-label=\"algorithm\"]");
way.value = "direct";
way.fire("change");
assert.equal(price(), "7.69 µs");
const alpha = panel("collectives").querySelector("[aria-label=\"α\"]");
alpha.value = "100";
alpha.fire("input");
assert.equal(price(), "204 µs");
assert.match(panel("collectives").querySelector(".xl-formula").textContent, /α=100 µs/);
assert.match(panel("collectives").querySelectorAll("tr[data-over]").find((r) => r.dataset.over === "data").textContent, /204 µs/);

// filters: words anywhere in the row and its reason
const find = panel("collectives").querySelector("[type=\"search\"]");
if (find) {
  find.value = "psum";
  find.fire("input");
  assert.equal(panel("collectives").querySelectorAll("tr[data-row]").filter((r) => !r.hidden).length, 1);
  find.value = "";
  find.fire("input");
}

// every array is in the list, and the chosen one is drawn: here from its spec alone
tab("Shardings").click();
await tick();
const arrays = panel("shardings").querySelectorAll(".xl-layout-row");
assert.equal(arrays.length, payload.data.layouts.rows[0].length);
assert.match(panel("shardings").querySelector(".xl-layout-stage").textContent, /ln1.*replicated on all 8 devices/);
arrays.find((r) => /qkv/.test(r.textContent)).click();
await tick();
const drawn = panel("shardings").querySelector(".xl-layout-stage");
assert.match(drawn.textContent, /params\['qkv'\]: f32\[64,192@model\] over data=4 model=2: shard f32\[64,96\], 4 copies/);
assert.equal(drawn.querySelectorAll(".xl-block").length, 2 + 8, "two blocks and eight devices");
assert.match(drawn.querySelector(".xl-chain").textContent, /argument was given.*kept by dot_general/);

// a notice leads to its place
root.querySelector("[data-go]").click();
assert.equal(panel("collectives").hidden, false);

// the stepper scrubs what was recorded and asks the kernel for nothing it has
tab("Steps").click();
await tick();
const place = () => panel("steps").querySelector(".xl-place").textContent;
assert.match(place(), /step 1 \/ /);
root.fire("keydown", { key: "ArrowRight" });
await tick();
assert.match(place(), /step 2 \/ /);
panel("steps").querySelector("[aria-label=\"run to the first NaN\"]").click();
await tick();
assert.match(place(), /step 62 \/ /);
assert.match(panel("steps").querySelector(".xl-values").textContent, /5 NaN/);
assert.deepEqual(sent, []);

// breakpoints are read and met in the recorded run; other text is refused with words; devices stand in the mesh
panel("steps").querySelector("[aria-label=\"first step\"]").click();
await tick();
const breakpoint = (text) => {
  const field = panel("steps").querySelector(".xl-break-field");
  field.value = text;
  field.fire("keydown", { key: "Enter" });
};
breakpoint("<b>no</b> such");
assert.match(panel("steps").querySelector(".xl-error").textContent, /<b>no<\/b> such” is no breakpoint/);
breakpoint("nan");
panel("steps").querySelector("[aria-label=\"run to the next breakpoint\"]").click();
await tick();
assert.match(place(), /step 62 \/ /);
assert.match(panel("steps").querySelector(".xl-stopped").textContent, /stopped at nan/);
assert.match(panel("steps").querySelector(".xl-chips").textContent, /nan ×1/);
assert.equal(panel("steps").querySelector(".xl-mesh-panels").querySelectorAll(".xl-shard-axis").length, 2 + 4);
assert.deepEqual(sent, []);

// what if: the page asks with names and numbers, and draws what it is answered
tab("What if").click();
await tick();
const what = panel("whatif");
const dimension = what.querySelector("[aria-label=\"dimension 0 of x\"]");
dimension.value = "model";
dimension.fire("change", { target: dimension });
const button = (text) => what.querySelectorAll("button").find((b) => b.textContent === text);
button("compile and compare").click();
assert.deepEqual(sent.map((m) => [m.ask, m.arguments]), [["what_if", { program: 0, placement: '{"specs":{"0":[["model"],[]]}}' }]]);
const side = (title, transfers) => ({ title, transfers, sent: transfers.length * 64, peak: 4096, mesh: { axis_names: ["data", "model"], axis_sizes: [4, 2] } });
const gather2 = { kind: "all_gather", axes: ["<b>"], instruction: "g.1", origin: "partitioner", times: 1, bytes_in: 64, bytes_out: 128 };
for (const hear of heard) hear({ id: sent[0].id, answer: { function: "f", before: side("now", [gather2]), after: side("what if", []) } });
await tick();
assert.match(what.querySelector(".xl-weighed").textContent, /collectives10▼ less/);
assert.match(what.textContent, /all_gather over <b>, 64 B → 128 B, partitioner ⚠/);
const send = model.send;
model.send = () => { throw new Error("Cannot send"); };
button("compile and compare").click();
await tick();
assert.match(what.querySelector(".xl-error").textContent, /the kernel that made this output is gone \(Cannot send\): run the cell again/);
model.send = send;
const mesh = what.querySelector("[aria-label=\"mesh\"]");
mesh.value = "data=1e9; import os";
button("compile and compare").click();
assert.equal(sent.length, 1, "a mesh that is none is not sent");
assert.match(what.querySelector(".xl-error").textContent, /is no mesh/);
button("back to what is").click();
button("search the best").click();
assert.equal(sent.at(-1).ask, "search");
const answer = (given) => { for (const hear of heard) hear({ id: sent.at(-1).id, answer: given }); };
const rank = (name, step_us, peak, rest = {}) => ({ ...side(name, []), name, step_us, peak, compute_us: step_us, specs: [["x", [["model"], []]]], ...rest });
const asked = JSON.parse(sent.at(-1).arguments.placement);
assert.ok(asked.vary.length > 1 && !asked.on, "all that has dimensions is varied at first");
answer({ done: false, phase: "walking", tried: 2, found: [rank("now", 8, 4096)] });
await tick();
assert.match(what.textContent, /nothing better found yet · 2 placements tried · walking …/);
assert.deepEqual(JSON.parse(sent.at(-1).arguments.placement).on, true);
button("stop").click();
answer({ done: false, tried: 9, best: 0, found: [rank("<b>FSDP", 5, 1024, { estimated: true, front: true }), rank("now", 8, 4096)] });
await tick();
await tick();
assert.match(what.textContent, /<b>FSDP is better: 5.00 µs a step instead of 8.00 µs, 1.02 KB per device instead of 4.1 KB \(estimated\) · 9 placements tried · stopped/);
assert.equal(what.querySelector(".xl-ranking").querySelectorAll("tr").length, 3);
assert.equal(what.querySelector(".xl-front").querySelectorAll("circle").length, 2);
const before = sent.length;
button("prove").click();
assert.deepEqual([sent.length, sent.at(-1).ask, JSON.parse(sent.at(-1).arguments.placement).specs["0"]], [before + 1, "what_if", [["model"], []]]);
answer({ function: "f", before: { ...side("now", []), step_us: 8 }, after: { ...side("what if", []), step_us: 5 } });
await tick();
assert.match(what.querySelector(".xl-weighed").textContent, /step8.00 µs5.00 µs▼ less/);
assert.match(what.querySelector(".xl-pasted").textContent, /"x": P\('model', None\),/);

// no markup, no handler, no address came out of the data
for (const node of root.walk()) {
  assert.ok(!["SCRIPT", "IFRAME", "IMG", "OBJECT", "LINK"].includes(node.tagName), node.tagName);
  for (const name of node.attributes.keys()) assert.ok(!/^on/i.test(name), name);
}

// the end leaves nothing behind
end();
assert.equal(el.querySelectorAll(".xl-report").length, 0);
assert.equal(heard.length, 0);

// the last view that leaves a notebook which stays says so; while a copy is there, or where the notebook went too, nobody does
const notebook = new Element("div");
notebook.className = "jp-Notebook";
const draw = () => {
  const output = new Element("div");
  notebook.append(output);
  return view.render({ model, el: output });
};
const later = () => new Promise((run) => setTimeout(run, 600));
notebook.isConnected = true;
const [first, second] = [draw(), draw()];
sent.splice(0);
first();
await later();
assert.deepEqual(sent, []);
second();
await later();
assert.deepEqual(sent.splice(0), [{ ask: "gone" }]);
const third = draw();
notebook.isConnected = false;
third();
await later();
assert.deepEqual(sent, [{ ask: "here" }]);
console.log("ok");
