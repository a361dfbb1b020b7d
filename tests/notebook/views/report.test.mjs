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
const root = el.querySelector(".xl-report");
const tabs = root.querySelectorAll("[role=\"tab\"]");
const panel = (name) => root.querySelector(`[data-tab="${name}"]`);
const tab = (name) => tabs.find((t) => t.textContent === name);

// tabs: one panel at a time, the rest kept
assert.deepEqual(tabs.map((t) => t.textContent), ["Program", "Shardings", "Collectives", "Timings", "Memory", "Passes", "Steps"]);
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
const heads = panel("collectives").querySelectorAll("th");
heads[3].click();
assert.equal(panel("collectives").querySelectorAll("tr[data-row]")[0].dataset.row, "1", "sorted by × times, most first");

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
panel("steps").querySelector("[aria-label=\"run to the first NaN or Inf\"]").click();
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
assert.equal(panel("steps").querySelector(".xl-mesh-panels").querySelectorAll(".xl-axis").length, 2 + 4);
assert.deepEqual(sent, []);

// no markup, no handler, no address came out of the data
for (const node of root.walk()) {
  assert.ok(!["SCRIPT", "IFRAME", "IMG", "OBJECT", "LINK"].includes(node.tagName), node.tagName);
  for (const name of node.attributes.keys()) assert.ok(!/^on/i.test(name), name);
}

// the end leaves nothing behind
end();
assert.equal(el.querySelectorAll(".xl-report").length, 0);
assert.equal(heard.length, 0);
console.log("ok");
