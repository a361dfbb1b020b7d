// The page's schedules and prices against those of the runtime, and what every rank holds at the end.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import "./dom.mjs";

const { predictCost, roundsOf, roundMessages, heldBefore, scheduleOf, labelPlace, meshPlaces } = await import(process.argv[2]);
const { cases, alpha, beta, permute, prices, labels, meshes } = JSON.parse(readFileSync(process.argv[3], "utf8"));
const near = (a, b, words) => assert.ok(Math.abs(a - b) < 1e-6 * Math.max(1, b), `${words}: ${a} and not ${b}`);

const taken = [[-22, -17, 22, 17]];
for (const [[s, c, e, n], at] of labels) {
  const found = labelPlace({ s, c, e, n }, "64 B", taken);
  assert.equal(found === null, at === null);
  if (at) for (const k of [0, 1]) assert.ok(Math.abs([found.x, found.y][k] - at[k]) < 1e-6, "Python and the page put labels at the same places");
}

for (const [names, sizes, [width, height]] of meshes) {
  const made = meshPlaces({ names, sizes });
  assert.deepEqual([made.width, made.height], [width, height], "Python and the page leave the same room for the names of axes");
}

for (const { kind, n, way, sizes, us, rounds, prices: own, stages, formulas } of cases) {
  const words = `${kind} over ${n} by ${way}`;
  near(predictCost({ kind, n, sizes, bytes: 1000, prices: own, stages, formulas }, way, alpha, beta, String).us, us, words);
  assert.equal(roundsOf(stages, n, way, sizes), rounds.length, words);
  rounds.forEach((expected, t) => {
    const sums = new Map();
    for (const m of roundMessages(stages, n, 1000, way, t, sizes)) if (m.size) sums.set(`${m.from} ${m.to}`, (sums.get(`${m.from} ${m.to}`) || 0) + m.size);
    const found = [...sums].map(([link, size]) => [...link.split(" ").map(Number), size]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    assert.deepEqual(found, expected.filter((m) => m[2]), `${words}, round ${t + 1}`);
  });
  const end = heldBefore(stages, n, way, rounds.length, sizes);
  end.forEach((row, rank) => {
    if (stages.at(-1) === "scatter") assert.equal(row[rank].share, 1, `${words}: rank ${rank} has its sum`);
    else row.forEach((c, i) => {
      assert.equal(c.share, 1, `${words}: rank ${rank} has block ${i}`);
      if (stages[0] === "exchange") assert.ok(c.source === i && !c.waiting, words);
    });
  });
}
for (const [way, us] of prices) near(predictCost({ kind: "collective_permute", n: 8, sizes: [8], bytes: 1000, ...permute }, way, alpha, beta, String).us, us, `permute by ${way}`);

// a permute: the block of the sender is what the receiver has
const t = { kind: "collective_permute", stages: permute.stages, n: 1, rounds: [], groups: [], pairs: [[0, 1], [1, 0]], bytes: 8 };
assert.equal(scheduleOf(t, "ring").held(1, 0)[0].source, 1);
// what is recorded message by message is played as recorded
assert.equal(scheduleOf({ ...t, rounds: [[[0, 1, 8]], [[1, 0, 8]]] }, "ring").count, 2);
console.log("ok");
