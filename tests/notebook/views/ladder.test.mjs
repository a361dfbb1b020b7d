// Runs the joined module over a saved ladder: node ladder.test.mjs MODULE PAYLOAD
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Element } from "./dom.mjs";

const view = (await import(pathToFileURL(process.argv[2]))).default;
const payload = JSON.parse(readFileSync(process.argv[3], "utf8"));
const tick = () => new Promise((run) => setTimeout(run, 5));

const el = new Element("div");
const end = view.render({ model: { get: () => payload, on() {}, off() {}, send() {} }, el });
const root = el.querySelector(".xl-report");
const rungs = root.querySelectorAll(".xl-rung");
const names = rungs.map((r) => r.getAttribute("aria-label"));
assert.deepEqual(names, ["f", "jvp", "linearize", "transpose", "grad", "vmap", "shard_map"]);
const rung = (name) => rungs[names.indexOf(name)];
const row = (name, text) => rung(name).querySelectorAll(".xl-row").find((r) => r.textContent.includes(text));

// every equation stands beside its rule; the function's beside its line
assert.match(row("jvp", "cos").textContent + row("jvp", "sin").textContent, /jvp of sin/);
assert.match(row("grad", "dot_general").textContent, /jvp of dot_general/);
assert.match(row("f", "sin").textContent, /line \d+/);
assert.ok(rung("jvp").querySelectorAll(".xl-d").some((d) => d.textContent === "∂"));

// choosing what a rule made lights its whole family, and no other equation
const chosen = row("transpose", "dot_general");
chosen.click();
await tick();
assert.equal(row("transpose", "dot_general").getAttribute("aria-selected"), "true");
for (const name of names.filter((n) => n !== "transpose")) {
  const lit = rung(name).querySelectorAll(".xl-lnk");
  assert.ok(lit.length >= 1, name);
  assert.ok(lit.every((r) => /dot_general|pvary/.test(r.textContent)), name);
}
assert.match(root.querySelector(".xl-status").textContent, /rule jvp of dot_general → transpose of dot_general/);

// down and up go to the same equation's next form, right and left along the program
root.fire("keydown", { key: "ArrowDown" });
await tick();
assert.equal(rung("grad").querySelectorAll(".xl-sel").length, 1);
root.fire("keydown", { key: "ArrowUp" });
root.fire("keydown", { key: "ArrowRight" });
await tick();
assert.match(rung("transpose").querySelector(".xl-sel").textContent, /mul/);

// find by rule
root.fire("keydown", { key: "/" });
const search = document.focused;
search.value = "batch of sin";
search.fire("input");
search.fire("keydown", { key: "Enter" });
await tick();
assert.equal(rung("vmap").querySelectorAll(".xl-sel").length, 1);
root.fire("keydown", { key: "Escape" });
await tick();
assert.equal(root.querySelectorAll(".xl-row").filter((r) => /xl-(sel|lnk)/.test(r.className)).length, 0);

// a rung folds
rung("vmap").querySelector(".xl-rung-name").click();
assert.equal(rung("vmap").querySelector(".xl-rung-name").getAttribute("aria-expanded"), "false");

end();
assert.equal(el.querySelectorAll(".xl-report").length, 0);
console.log("ok");
