// The values of a step under Node: what is an alarm, what the step reads, what a replaced value changes, and numbers once.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { Element } from "./dom.mjs";

const [, , module, file] = process.argv;
const view = (await import(`file://${module}`)).default;
const cases = JSON.parse(readFileSync(file, "utf8"));
const tick = () => new Promise((run) => setTimeout(run, 1));

function draw(name, answer) {
  const el = new Element("div");
  let hear = () => {};
  const model = {
    get: () => cases[name],
    on: (_, run) => { const before = hear; hear = (m) => { before(m); run(m); }; },
    off() {},
    send: (message) => message.arguments && setTimeout(() => hear({ id: message.id, answer: answer(message) }), 0),
  };
  view.render({ model: answer ? model : { get: model.get }, el });
  const steps = cases[name].data.steps.steps;
  const go = async (i) => { const s = el.querySelector(".xl-scrub"); s.value = String(i); s.fire("input"); await tick(); };
  const heads = () => el.querySelectorAll(".xl-value-head");
  return { el, steps, go, heads, all: (name) => el.querySelectorAll(name), value: (name) => heads().find((n) => n.querySelector("b").textContent === name) };
}

{ // a mask of infinities is counted and is no alarm
  const { steps, go, all, el } = draw("masked");
  let counted = 0;
  for (let i = 0; i < steps.length; i += 1) {
    await go(i);
    assert.equal(all(".xl-sign").length, 0, `step ${i}`);
    assert.doesNotMatch(el.querySelector(".xl-values").textContent, /⚠/);
    counted += /\d Inf/.test(el.querySelector(".xl-values").textContent);
  }
  assert.ok(counted);
}

for (const name of ["scan", "shard_map"]) { // what a step inside reads is called its operand, and nothing else is
  const { steps, go, all, heads } = draw(name);
  const at = steps.findIndex((s) => s.path.length && s.equation === cases[name].data.inside);
  await go(at);
  const tagged = heads().filter((n) => n.querySelector(".xl-tag")?.textContent === "operand").map((n) => n.querySelector("b").textContent);
  assert.deepEqual(tagged.sort(), cases[name].data.operands, name);
  assert.equal(all(".xl-tag").length, tagged.length);
}

{ // what a replaced value changes says what it was, and what stays the same does not; one number is written once
  const known = [];
  const { el, go, heads, all, value, steps } = draw("replaced", (m) => {
    if (m.ask === "replace") return { ...steps[0], outputs: [{ ...steps[0].outputs[0], min: 7, max: 7, mean: 7, preview: [7] }] };
    known.push(m.arguments.index);
    const step = steps[m.arguments.index];
    return m.arguments.index === 1 ? { ...step, outputs: [{ ...step.outputs[0], min: 8, max: 8, mean: 8, preview: [8] }] } : step;
  });
  await go(0);
  const [y, z, u] = ["y", "z", "u"];
  assert.equal(el.querySelector(".xl-values").textContent.match(/4/g).length, 1, "one number once");
  const input = value(y).querySelector("input");
  input.value = "7";
  input.fire("keydown", { key: "Enter" });
  await tick(); await tick();
  assert.match(value(y).textContent, /≠ was 4/);
  await go(1); await tick();
  assert.match(value(z).textContent, /8.*≠ was 5/);
  await go(2); await tick();
  assert.doesNotMatch(value(u).textContent, /≠ was/);
  assert.equal(all(".xl-was").length, 2);
  assert.deepEqual(known, [1, 2], "steps behind it are asked for anew");
}
process.stdout.write("ok\n");
