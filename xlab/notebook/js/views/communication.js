/** Collectives as messages between ranks, round by round, and what they should cost: the model of `xlab.interpreters.communication`, for the page. */

export const trafficWays = ["ring", "bidirectional", "direct", "axes"];

const partOf = (total, i, n) => Math.floor((total * (i + 1)) / n) - Math.floor((total * i) / n);
const wrap = (i, n) => ((i % n) + n) % n;

// steps, bytes on one link in one step, and how they are written: n devices, S bytes on each. The order is that of `trafficWays`.
const costs = {
  all_reduce: [[(n) => 2 * (n - 1), (n, s) => s / n, "2(n−1)(α + S/(nβ))"], [(n) => 2 * (n - 1), (n, s) => s / (2 * n), "2(n−1)(α + S/(2nβ))"], [() => 2, (n, s) => (s * (n - 1)) / n, "2(α + S(n−1)/(nβ))"]],
  all_gather: [[(n) => n - 1, (n, s) => s, "(n−1)(α + S/β)"], [(n) => n - 1, (n, s) => s / 2, "(n−1)(α + S/(2β))"], [() => 1, (n, s) => s * (n - 1), "α + S(n−1)/β"]],
  reduce_scatter: [[(n) => n - 1, (n, s) => s / n, "(n−1)(α + S/(nβ))"], [(n) => n - 1, (n, s) => s / (2 * n), "(n−1)(α + S/(2nβ))"], [() => 1, (n, s) => (s * (n - 1)) / n, "α + S(n−1)/(nβ)"]],
  all_to_all: [[(n) => n - 1, (n, s) => s / 2, "(n−1)(α + S/(2β))"], [(n) => Math.floor(n / 2), (n, s) => (s * Math.floor((n * n) / 4)) / (2 * n) / Math.max(1, Math.floor(n / 2)), "⌊n/2⌋α + S⌊n²/4⌋/(2nβ)"], [() => 1, (n, s) => (s * (n - 1)) / n, "α + S(n−1)/(nβ)"]],
  collective_broadcast: [[(n) => n - 1, (n, s) => s, "(n−1)(α + S/β)"], [(n) => Math.floor(n / 2), (n, s) => s, "⌊n/2⌋(α + S/β)"], [() => 1, (n, s) => s * (n - 1), "α + S(n−1)/β"]],
};
costs.ragged_all_to_all = costs.all_to_all;

// Over several axes at once: latency of one ring per axis, bandwidth of the links of all k axes together.
const severalAxes = {
  all_reduce: [2, (n, s) => (2 * s * (n - 1)) / n, "2Σ(nᵢ−1)α + 2S(n−1)/(nkβ)"],
  all_gather: [1, (n, s) => s * (n - 1), "Σ(nᵢ−1)α + S(n−1)/(kβ)"],
  reduce_scatter: [1, (n, s) => (s * (n - 1)) / n, "Σ(nᵢ−1)α + S(n−1)/(nkβ)"],
};

/** Microseconds of one run and the formula; `t` has kind, n, bytes, sizes (of the axes), hops and load (of a permute: one way, both ways). */
export function predictCost(t, way, alpha, beta, say) {
  const link = `α=${say(alpha)} µs, β=${say(beta / 1e3)} GB/s`;
  if (t.kind === "collective_permute") {
    const both = way === "bidirectional" ? 2 : 0;
    const [hops, load] = way === "direct" ? [t.route[0] ? 1 : 0, t.bytes] : [t.route[both], t.route[both + 1]];
    return { us: hops ? hops * alpha + load / beta : 0, words: "hα + L/β", numbers: `h=${hops}, L=${load.toLocaleString("en")} B, ${link}` };
  }
  if (t.n < 2) return { us: 0, words: "0", numbers: "one device per group" };
  const several = way === "axes" && t.sizes.length > 1 && severalAxes[t.kind];
  if (several) {
    const [twice, bytesOf, words] = several;
    const steps = twice * t.sizes.reduce((a, k) => a + k - 1, 0);
    return { us: steps * alpha + bytesOf(t.n, t.bytes) / (t.sizes.length * beta), words, numbers: `n=${t.sizes.join("·")}, k=${t.sizes.length}, S=${t.bytes.toLocaleString("en")} B, ${link}` };
  }
  const row = costs[t.kind]?.[Math.max(0, ["ring", "bidirectional", "direct"].indexOf(way))];
  if (!row) return { us: null, words: "", numbers: `no formula for ${t.kind}` };
  return { us: row[0](t.n) * (alpha + row[1](t.n, t.bytes) / beta), words: row[2], numbers: `n=${t.n}, S=${t.bytes.toLocaleString("en")} B, ${link}` };
}

/** How many rounds a collective over n ranks takes. */
export function roundsOf(kind, n, way) {
  if (kind === "collective_permute") return 1;
  if (n < 2 || !costs[kind]) return 0;
  const direct = way === "direct";
  if (kind === "all_reduce") return direct ? 2 : 2 * (n - 1);
  if (kind === "collective_broadcast") return direct ? 1 : way === "bidirectional" ? Math.floor(n / 2) : n - 1;
  if (/all_to_all/.test(kind)) return direct ? 1 : way === "bidirectional" ? Math.floor(n / 2) : n - 1;
  return direct ? 1 : n - 1;
}

/** Messages of one round: `{from, to, size, chunk, add, origin}` by rank; `add` where the receiver adds. */
export function roundMessages(kind, n, total, way, t) {
  const ranks = Array.from({ length: n }, (_, r) => r);
  if (kind === "all_reduce") {
    const half = way === "direct" ? 1 : n - 1;
    return t < half ? scatterRound(n, total, way, t, ranks) : spreadRound(n, (r) => partOf(total, r, n), way, t - half, ranks);
  }
  if (kind === "reduce_scatter") return scatterRound(n, total, way, t, ranks);
  if (kind === "all_gather") return spreadRound(n, () => total, way, t, ranks);
  if (/all_to_all/.test(kind)) {
    if (way === "direct") return ranks.flatMap((r) => ranks.filter((d) => d !== r).map((d) => ({ from: r, to: d, size: partOf(total, d, n), chunk: d, origin: r })));
    return ranks.flatMap((o) => ranks.slice(1).flatMap((away) => {
      const back = way === "bidirectional" && away > Math.floor(n / 2);
      const step = back ? -1 : 1;
      if (t >= (back ? n - away : away)) return [];
      const target = (o + away) % n;
      return [{ from: wrap(o + step * t, n), to: wrap(o + step * (t + 1), n), size: partOf(total, target, n), chunk: target, origin: o }];
    }));
  }
  if (kind === "collective_broadcast") {
    if (way === "direct") return ranks.slice(1).map((d) => ({ from: 0, to: d, size: total, chunk: 0, origin: 0 }));
    const right = { from: t, to: t + 1, size: total, chunk: 0, origin: 0 };
    if (way !== "bidirectional") return t < n - 1 ? [right] : [];
    return [...(t < Math.floor(n / 2) ? [right] : []), ...(t < Math.floor((n - 1) / 2) ? [{ from: wrap(-t, n), to: wrap(-t - 1, n), size: total, chunk: 0, origin: 0 }] : [])];
  }
  return [];
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

function spreadRound(n, size, way, t, ranks) {
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
export function heldBefore(kind, n, way, t) {
  const gather = kind === "all_gather" || kind === "collective_broadcast";
  const exchange = /all_to_all/.test(kind);
  const halves = way === "bidirectional" && /^all_gather|^all_reduce|^reduce_scatter/.test(kind) ? 2 : 1;
  const chunks = kind === "collective_broadcast" ? 1 : n;
  const bit = (r) => 2n ** BigInt(r);
  // By rank, chunk and half: which ranks' values are in it.
  let held = Array.from({ length: n }, (_, r) => Array.from({ length: chunks }, (_c, c) => Array(halves).fill(gather ? (c === r ? bit(r) : 0n) : bit(r))));
  const arrived = Array.from({ length: n }, (_, r) => new Set([r]));
  for (let round = 0; round < t; round += 1) {
    const next = held.map((row) => row.map((c) => [...c]));
    for (const m of roundMessages(kind, n, n * 64, way, round)) {
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
