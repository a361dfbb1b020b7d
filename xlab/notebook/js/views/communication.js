/** Collectives as messages between ranks, round by round, and what they should cost: the model of `xlab.interpreters.communication`, for the page. */

const algorithms = ["ring", "bidirectional", "direct", "axes"];

const partOf = (total, i, n) => Math.floor((total * (i + 1)) / n) - Math.floor((total * i) / n);
const wrap = (i, n) => ((i % n) + n) % n;

/** Microseconds of one run and the formula; `t` has the prices and formulas by algorithm, n, bytes, and sizes (of the axes). */
export function predictCost(t, way, alpha, beta, say) {
  const link = `α=${say(alpha)} µs, β=${say(beta / 1e3)} GB/s`;
  const at = algorithms.indexOf(way);
  const [steps, size, load = 0, links = 1] = t.prices?.[at] || [];
  const us = steps ? steps * (alpha + size / beta) + load / (links * beta) : 0;
  if (steps === undefined) return { us: null, words: "", numbers: `no formula for ${t.kind}` };
  if (t.stages[0] === "pairs") return { us, words: t.formulas[at], numbers: `h=${steps}, L=${load.toLocaleString("en")} B, ${link}` };
  if (t.n < 2) return { us: 0, words: "0", numbers: "one device per group" };
  const all = `S=${t.bytes.toLocaleString("en")} B, ${link}`;
  if (links > 1) return { us, words: t.formulas[at], numbers: `n=${t.sizes.join("·")}, k=${links}, ${all}` };
  return { us, words: t.formulas[way === "axes" ? 0 : at], numbers: `n=${t.n}, ${all}` };
}

// How many rounds a stage takes over n ranks.
const stageRounds = (stage, n, way) => (stage === "pairs" || way === "direct" ? 1 : (stage === "exchange" || stage === "broadcast") && way === "bidirectional" ? Math.floor(n / 2) : n - 1);

/** How many rounds a collective of these stages takes over n ranks. */
export const roundsOf = (stages, n, way) => (n < 2 && stages[0] !== "pairs" ? 0 : stages.reduce((sum, stage) => sum + stageRounds(stage, n, way), 0));

/** Messages of one round: `{from, to, size, chunk, add, origin}` by rank; `add` where the receiver adds. After a scatter each has a part. */
export function roundMessages(stages, n, total, way, t) {
  const ranks = Array.from({ length: n }, (_, r) => r);
  let size = () => total;
  let at = t;
  for (const stage of stages) {
    const count = stageRounds(stage, n, way);
    if (at < count) return stageMessages[stage]?.(n, stage === "gather" ? size : total, way, at, ranks) || [];
    at -= count;
    if (stage === "scatter") size = (r) => partOf(total, r, n);
  }
  return [];
}

const stageMessages = { scatter: scatterRound, gather: gatherRound, exchange: exchangeRound, broadcast: broadcastRound };

function exchangeRound(n, total, way, t, ranks) {
  if (way === "direct") return ranks.flatMap((r) => ranks.filter((d) => d !== r).map((d) => ({ from: r, to: d, size: partOf(total, d, n), chunk: d, origin: r })));
  return ranks.flatMap((o) => ranks.slice(1).flatMap((away) => {
    const back = way === "bidirectional" && away > Math.floor(n / 2);
    const step = back ? -1 : 1;
    if (t >= (back ? n - away : away)) return [];
    const target = (o + away) % n;
    return [{ from: wrap(o + step * t, n), to: wrap(o + step * (t + 1), n), size: partOf(total, target, n), chunk: target, origin: o }];
  }));
}

function broadcastRound(n, total, way, t, ranks) {
  if (way === "direct") return ranks.slice(1).map((d) => ({ from: 0, to: d, size: total, chunk: 0, origin: 0 }));
  const right = { from: t, to: t + 1, size: total, chunk: 0, origin: 0 };
  if (way !== "bidirectional") return t < n - 1 ? [right] : [];
  return [...(t < Math.floor(n / 2) ? [right] : []), ...(t < Math.floor((n - 1) / 2) ? [{ from: wrap(-t, n), to: wrap(-t - 1, n), size: total, chunk: 0, origin: 0 }] : [])];
}

/** A ring, or a ring each way with half of every chunk, of what `one(step)` makes. */
function bothRings(way, one) {
  if (way !== "bidirectional") return one(1);
  return [...one(1).map((m) => ({ ...m, size: m.size - Math.floor(m.size / 2), half: 0 })), ...one(-1).map((m) => ({ ...m, size: Math.floor(m.size / 2), half: 1 }))];
}

function scatterRound(n, total, way, t, ranks) {
  if (way === "direct") return ranks.flatMap((r) => ranks.filter((d) => d !== r).map((d) => ({ from: r, to: d, size: partOf(total, d, n), chunk: d, add: true, origin: r })));
  return bothRings(way, (step) => ranks.map((r) => {
    const chunk = wrap(r - step * (t + 1), n);
    return { from: r, to: wrap(r + step, n), size: partOf(total, chunk, n), chunk, add: true, origin: chunk };
  }));
}

function gatherRound(n, size, way, t, ranks) {
  if (way === "direct") return ranks.flatMap((r) => ranks.filter((d) => d !== r).map((d) => ({ from: r, to: d, size: size(r), chunk: r, origin: r })));
  return bothRings(way, (step) => ranks.map((r) => {
    const chunk = wrap(r - step * t, n);
    return { from: r, to: wrap(r + step, n), size: size(chunk), chunk, origin: chunk };
  }));
}

/**
 * What each rank holds before round `t`: per rank a list of `{source, share}`, one per chunk; `share` is the part that is there, in a
 * reduction the part of the ranks that are added up. Chunks of a gather are those of its sources.
 */
export function heldBefore(stages, n, way, t) {
  const gather = stages[0] === "gather" || stages[0] === "broadcast";
  const exchange = stages[0] === "exchange";
  const halves = way === "bidirectional" && (stages[0] === "gather" || stages[0] === "scatter") ? 2 : 1;
  const chunks = stages[0] === "broadcast" ? 1 : n;
  const bit = (r) => 2n ** BigInt(r);
  // By rank, chunk and half: which ranks' values are in it.
  let held = Array.from({ length: n }, (_, r) => Array.from({ length: chunks }, (_c, c) => Array(halves).fill(gather ? (c === r ? bit(r) : 0n) : bit(r))));
  const arrived = Array.from({ length: n }, (_, r) => new Set([r]));
  for (let round = 0; round < t; round += 1) {
    const next = held.map((row) => row.map((c) => [...c]));
    for (const m of roundMessages(stages, n, n * 64, way, round)) {
      if (exchange) {
        if (m.to === m.chunk) arrived[m.to].add(m.origin);
        continue;
      }
      const h = m.half || 0;
      const sent = m.add && way === "direct" ? bit(m.from) : held[m.from][m.chunk][h];
      next[m.to][m.chunk][h] = m.add ? next[m.to][m.chunk][h] | sent : sent;
    }
    held = next;
  }
  const count = (set) => { let found = 0; for (let s = set; s; s >>= 1n) found += Number(s & 1n); return found; };
  return held.map((row, r) => row.map((parts, c) => {
    if (exchange) return { source: arrived[r].has(c) ? c : r, share: 1, waiting: !arrived[r].has(c) };
    const most = gather ? 1 : n;
    return { source: c, share: parts.reduce((a, p) => a + count(p), 0) / (most * parts.length) };
  }));
}
