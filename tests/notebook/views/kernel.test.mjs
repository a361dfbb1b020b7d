// The kernel view under Node: a payload is drawn, scrubbed and asked about, in a document of a few lines.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { Element } from "./dom.mjs";

const [, , module, file] = process.argv;
const view = (await import(`file://${module}`)).default;
const cases = JSON.parse(readFileSync(file, "utf8"));

function draw(name, answer) {
  const el = new Element("div");
  const asked = [];
  let hear = () => {};
  const model = {
    get: () => cases[name],
    on: (_, run) => { const before = hear; hear = (m) => { before(m); run(m); }; },
    off() {},
    send: (message) => {
      if (!message.arguments) return;
      asked.push(message);
      setTimeout(() => hear({ id: message.id, answer: answer(message) }), 0);
    },
  };
  const end = view.render({ model: answer ? model : { get: model.get }, el });
  assert.equal(el.querySelectorAll(".xl-error").filter((n) => n.textContent.includes("this view failed")).length, 0, el.textContent.slice(0, 400));
  const bar = el.querySelector("[role=toolbar]");
  const button = (label) => el.querySelectorAll("button").find((b) => (b.getAttribute("aria-label") ?? b.textContent) === label);
  return { el, end, asked, bar, button, place: () => el.querySelector(".xl-place").textContent, slide: (i) => { const s = el.querySelector(".xl-scrub"); s.value = String(i); s.fire("input"); } };
}

const of = (el, name) => el.querySelectorAll(".xl-kernel-operand").find((n) => n.getAttribute("data-operand") === name);
const now = (el, name) => of(el, name).querySelectorAll(".xl-kernel-now").map((g) => g.getAttribute("class"));
const title = (el, name) => of(el, name).querySelector(".xl-kernel-now title").textContent;
const start = (el, name) => /start \(([^)]*)\)/.exec(title(el, name))[1];

{
  // K100, as it is written: A's blocks constant along n, B's along m, C's revisited k times in a row, visits add up to the grid.
  const { el, place, slide, button } = draw("matmul");
  const [m, n, k] = cases.matmul.data.kernels[0].grid;
  assert.equal(place(), `step 1 / ${m * n * k}`);
  const seen = [];
  for (let i = 0; i < m * n * k; i += 1) {
    slide(i);
    seen.push(["args[0]", "args[1]", "outputs[0]"].map((name) => start(el, name)));
  }
  const at = (i, j, p) => seen[(i * n + j) * k + p];
  for (let i = 0; i < m; i += 1) for (let j = 0; j < n; j += 1) for (let p = 0; p < k; p += 1) {
    assert.equal(at(i, j, p)[0], at(i, 0, p)[0]);
    assert.equal(at(i, j, p)[1], at(0, j, p)[1]);
    assert.equal(at(i, j, p)[2], at(i, j, 0)[2]);
    if (j) assert.notEqual(at(i, j, p)[2], at(i, j - 1, p)[2]);
  }
  for (const name of ["args[0]", "args[1]", "outputs[0]"]) {
    const visits = of(el, name).querySelectorAll(".xl-kernel-block").map((r) => +r.getAttribute("data-visits"));
    assert.equal(visits.reduce((a, b) => a + b, 0), m * n * k, name);
  }
  assert.deepEqual(now(el, "args[0]"), ["xl-kernel-now xl-kernel-read"]);
  assert.deepEqual(now(el, "outputs[0]"), ["xl-kernel-now xl-kernel-both"]);
  const words = title(el, "outputs[0]");
  for (const part of ["block (3, 2)", "start (48, 32)", "shape (16, 16)", "visit 2", "index map i, j, k → (i, j)"]) assert.ok(words.includes(part), words);
  // Forwards, backwards, to both ends.
  button("first step").click();
  assert.ok(place().startsWith("step 1 "));
  button("one step (right)").click();
  button("one step (right)").click();
  button("one step back (left)").click();
  assert.ok(place().startsWith("step 2 "));
  const half = of(el, "outputs[0]").querySelectorAll(".xl-kernel-block").map((r) => +r.getAttribute("data-visits"));
  assert.equal(half.reduce((a, b) => a + b, 0), 2, "visits so far");
  button("last step").click();
  assert.ok(place().startsWith(`step ${m * n * k} `));
}
{
  // Padding is hatched, clamped blocks have a red edge; jumps go to what went wrong; nobody wrote the grey cells.
  const { el, place, slide, button } = draw("padded");
  slide(2);
  assert.equal(of(el, "args[0]").querySelectorAll(".xl-kernel-pad").length, 1);
  assert.ok(title(el, "args[0]").includes("padding (2)"));
  slide(3);
  assert.ok(now(el, "args[0]")[0].includes("xl-kernel-clamped"));
  button("first step").click();
  button("run to the first NaN").click();
  assert.ok(place().startsWith("step 3 "));
  assert.ok(el.querySelector(".xl-stopped").textContent.includes("holds NaN"));
  assert.equal(el.querySelectorAll(".xl-kernel-uninitialized").length, 1);
  assert.equal(el.querySelectorAll("rect").filter((r) => r.getAttribute("class").includes("xl-nan")).length, 1);
  button("run to the first out of bounds").click();
  assert.ok(place().startsWith("step 4 "));
  assert.ok(button("run to the first race").getAttribute("disabled") !== null);
}
{
  // Lanes: a wait is hatched until it goes on, an arrow leads from the signal to it, and the sentence says who waits for whom.
  const { el, slide } = draw("producer_consumer");
  assert.equal(el.querySelectorAll(".xl-kernel-waiting").length, 2);
  assert.equal(el.querySelectorAll(".xl-kernel-signal").length, 2);
  assert.equal(el.querySelectorAll(".xl-kernel-ribbon").length, 1);
  slide(2);
  const words = el.querySelector(".xl-kernel-waits").textContent;
  assert.ok(words.includes("core 1 waits for scratch[1][0] since t=1: core 0 signals it at t=3"), words);
  const choice = el.querySelectorAll("select").find((s) => s.getAttribute("aria-label") === "schedule");
  choice.value = "0";
  choice.fire("change");
  assert.ok(el.querySelector(".xl-place").textContent.endsWith("of 20"), el.querySelector(".xl-place").textContent);
  assert.ok(el.textContent.includes("saved page: the schedules that were recorded"));
}
{
  const { el, slide } = draw("deadlock");
  slide(2);
  assert.ok(el.querySelector(".xl-kernel-waits").textContent.includes("core 0 waits for scratch[1][0] since t=0: nobody signals it"));
}
{
  // With a kernel: another schedule by seed, and the shortest with the race, are asked for by what the view lists.
  const { el, asked, button } = draw("race", (message) => cases[message.arguments.how === "shortest" ? "shortest" : "race"].data.kernels[0]);
  const seed = el.querySelectorAll("input").find((i) => i.getAttribute("aria-label") === "seed of the schedule");
  seed.value = "7";
  button("by seed").click();
  await new Promise((done) => setTimeout(done, 5));
  assert.deepEqual(asked[0].arguments, { how: "random", seed: 7 });
  button("shortest with the race").click();
  await new Promise((done) => setTimeout(done, 5));
  assert.equal(asked[1].arguments.how, "shortest");
  assert.ok(el.querySelector(".xl-place").textContent.endsWith("of 2"), el.querySelector(".xl-place").textContent);
  assert.equal(el.querySelectorAll(".xl-kernel-race").length, 1);
  // A race leads to its place.
  el.querySelector(".xl-kernel-pick").click();
  assert.ok(el.querySelector(".xl-place").textContent.startsWith("t = 1 "));
}
{
  // Ten thousand steps: opened and stepped without drawing them all.
  const { el, slide, end } = draw("long");
  slide(9999);
  assert.ok(el.querySelector(".xl-place").textContent.startsWith("step 10000 / 10000"));
  assert.ok([...el.walk()].length < 3000, "only what is in sight is drawn");
  end();
  assert.equal(el.querySelectorAll("*").length, 0);
}
console.log("ok");
