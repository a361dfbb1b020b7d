/** Collectives as messages between ranks, round by round, and what they should cost: the model of `xlab.interpreters.communication`, for the page. */

const algorithms = ["ring", "bidirectional", "shortest", "doubling", "direct", "pipelined", "axes", "per_axis"];
const pieces = 4; // of a pipelined broadcast

const partOf = (total, i, n) => Math.floor((total * (i + 1)) / n) - Math.floor((total * i) / n);
const wrap = (i, n) => ((i % n) + n) % n;
const bitsOf = (n) => 32 - Math.clz32(n - 1);

/** The algorithm that is used where one was asked for: not each exists for each collective, or for each number of ranks. */
export function carriedOut(stages, n, way, sizes) {
  const rings = stages.every((stage) => stage === "scatter" || stage === "gather");
  const broadcast = stages.length === 1 && stages[0] === "broadcast";
  if (way === "shortest") return rings ? way : "bidirectional";
  if (way === "doubling") return (n & (n - 1)) === 0 || broadcast ? way : "ring";
  if (way === "pipelined") return broadcast ? way : "ring";
  if (way === "axes" || way === "per_axis") return rings && sizes.length > 1 && sizes.reduce((a, b) => a * b, 1) === n ? way : "ring";
  return way;
}

/** Microseconds of one run and the formula; `t` has the prices and formulas by algorithm, n, bytes, and sizes (of the axes). */
export function predictCost(t, way, alpha, beta, say) {
  const link = `α=${say(alpha)} µs, β=${say(beta / 1e3)} GB/s`;
  const at = algorithms.indexOf(way);
  const [steps, size, load = 0, links = 1] = t.prices?.[at] || [];
  const us = steps ? steps * (alpha + size / beta) + load / (links * beta) : 0;
  if (steps === undefined) return { us: null, words: "", numbers: `no formula for ${t.kind}` };
  if (t.stages[0] === "pairs") return { us, words: t.formulas[at], numbers: `h=${steps}, L=${load.toLocaleString("en")} B, ${link}` };
  if (t.n < 2) return { us: 0, words: "0", numbers: "one device per group" };
  const used = carriedOut(t.stages, t.n, way, t.sizes);
  const words = t.formulas[algorithms.indexOf(used)];
  const all = `S=${t.bytes.toLocaleString("en")} B, ${link}`;
  if (used === "axes" || used === "per_axis") return { us, words, numbers: `n=${t.sizes.join("·")}, ${links > 1 ? `k=${links}, ` : ""}${all}` };
  return { us, words, numbers: `n=${t.n}, ${all}` };
}

// How many rounds a stage takes over n ranks, in a way that fits it.
function stageRounds(stage, n, way, sizes) {
  if (stage === "pairs" || way === "direct") return 1;
  if (way === "doubling") return bitsOf(n);
  if (way === "axes" || way === "per_axis") return sizes.reduce((sum, size) => sum + size - 1, 0);
  if (way === "shortest" || (way === "bidirectional" && (stage === "exchange" || stage === "broadcast"))) return Math.floor(n / 2);
  return n - 1 + (way === "pipelined" ? pieces - 1 : 0);
}

/** How many rounds a collective of these stages takes over n ranks. */
export function roundsOf(stages, n, asked, sizes = []) {
  const way = carriedOut(stages, n, asked, sizes);
  return n < 2 && stages[0] !== "pairs" ? 0 : stages.reduce((sum, stage) => sum + stageRounds(stage, n, way, sizes), 0);
}

/** Into how many parts an algorithm cuts each chunk. */
function partsOf(stage, way, sizes) {
  if (stage === "scatter" || stage === "gather") return way === "bidirectional" ? 2 : way === "axes" ? sizes.length : 1;
  return stage === "broadcast" && way === "pipelined" ? pieces : 1;
}

/** Messages of one round: `{from, to, size, chunk, part, add, origin}` by rank; `add` where the receiver adds. After a scatter each has a part. */
export function roundMessages(stages, n, total, asked, t, sizes = []) {
  const way = carriedOut(stages, n, asked, sizes);
  const whole = stages[0] === "gather" || stages[0] === "broadcast";
  let at = t;
  for (const stage of stages) {
    const count = stageRounds(stage, n, way, sizes);
    if (at < count) {
      const parts = partsOf(stage, way, sizes);
      return (stageMoves[stage]?.(n, way, at, sizes, count) || []).map(([from, to, chunk, part = 0, origin = chunk]) => ({
        from, to, chunk, part, origin, add: stage === "scatter", size: partOf(whole ? total : partOf(total, chunk, n), parts - 1 - part, parts) }));
    }
    at -= count;
  }
  return [];
}

const ranksOf = (n) => Array.from({ length: n }, (_, r) => r);
const others = (n, made) => ranksOf(n).flatMap((r) => ranksOf(n).filter((d) => d !== r).map((d) => made(r, d)));

// One step of a stage, as [from, to, chunk, part, origin]. A scatter is a gather backwards.
const stageMoves = {
  gather: (n, way, t, sizes) => gatherMoves(n, way, t, sizes, 1),
  scatter: (n, way, t, sizes, count) => gatherMoves(n, way, count - 1 - t, sizes, -1).map(([from, to, ...rest]) => [to, from, ...rest]),
  exchange: exchangeMoves,
  broadcast: broadcastMoves,
};

function gatherMoves(n, way, t, sizes, sign) {
  if (way === "direct") return others(n, (r, d) => [r, d, r]);
  if (way === "doubling") return ranksOf(n).flatMap((r) => ranksOf(1 << t).map((c) => [r, r ^ (1 << t), ((r >> t) << t) + c]));
  if (way === "axes" || way === "per_axis") {
    const k = sizes.length;
    return ranksOf(way === "axes" ? k : 1).flatMap((p) => alongMoves(sizes, ranksOf(k).map((i) => wrap(k - 1 - i - p, k)), p, t, sign));
  }
  const ring = (step, part = 0) => ranksOf(n).map((r) => [r, wrap(r + step, n), wrap(r - step * t, n), part]);
  if (way === "bidirectional") return [...ring(sign), ...ring(-sign, 1)];
  if (way === "shortest") return [...ring(sign), ...(t < Math.floor((n - 1) / 2) ? ring(-sign) : [])];
  return ring(sign);
}

/** A ring along each axis of the ranks, one after the other: what was gathered along the axes before goes along together. */
function alongMoves(sizes, order, part, t, sign) {
  const strides = sizes.map((_, a) => sizes.slice(a + 1).reduce((x, y) => x * y, 1));
  const n = strides[0] * sizes[0];
  let at = t;
  const done = [];
  for (const axis of order) {
    if (at < sizes[axis] - 1) {
      return ranksOf(n).flatMap((r) => {
        const place = sizes.map((size, a) => Math.floor(r / strides[a]) % size);
        const to = r + (wrap(place[axis] + sign, sizes[axis]) - place[axis]) * strides[axis];
        const had = r + (wrap(place[axis] - sign * at, sizes[axis]) - place[axis]) * strides[axis];
        const chunks = done.reduce((all, a) => all.flatMap((c) => ranksOf(sizes[a]).map((i) => c + (i - place[a]) * strides[a])), [had]);
        return chunks.map((c) => [r, to, c, part]);
      });
    }
    at -= sizes[axis] - 1;
    done.push(axis);
  }
  return [];
}

function exchangeMoves(n, way, t) {
  if (way === "direct") return others(n, (r, d) => [r, d, d, 0, r]);
  return ranksOf(n).flatMap((o) => ranksOf(n).slice(1).flatMap((away) => {
    if (way === "doubling") {
      const at = o ^ (away & ((1 << t) - 1));
      return away & (1 << t) ? [[at, at ^ (1 << t), o ^ away, 0, o]] : [];
    }
    const back = way === "bidirectional" && away > Math.floor(n / 2);
    const step = back ? -1 : 1;
    if (t >= (back ? n - away : away)) return [];
    return [[wrap(o + step * t, n), wrap(o + step * (t + 1), n), (o + away) % n, 0, o]];
  }));
}

function broadcastMoves(n, way, t) {
  if (way === "direct") return ranksOf(n).slice(1).map((d) => [0, d, 0]);
  if (way === "doubling") return ranksOf(Math.min(1 << t, n - (1 << t))).map((r) => [r, r + (1 << t), 0]);
  if (way === "pipelined") return ranksOf(pieces).filter((p) => t - p >= 0 && t - p < n - 1).map((p) => [t - p, t - p + 1, 0, p]);
  if (way !== "bidirectional") return t < n - 1 ? [[t, t + 1, 0]] : [];
  return [...(t < Math.floor(n / 2) ? [[t, t + 1, 0]] : []), ...(t < Math.floor((n - 1) / 2) ? [[wrap(-t, n), wrap(-t - 1, n), 0]] : [])];
}

/**
 * What each rank holds before round `t`: per rank a list of `{source, share}`, one per chunk; `share` is the part that is there, in a
 * reduction the part of the ranks that are added up. Chunks of a gather are those of its sources.
 */
export function heldBefore(stages, n, asked, t, sizes = []) {
  const way = carriedOut(stages, n, asked, sizes);
  const gather = stages[0] === "gather" || stages[0] === "broadcast";
  const exchange = stages[0] === "exchange";
  const halves = partsOf(stages[0], way, sizes);
  const chunks = stages[0] === "broadcast" ? 1 : n;
  const bit = (r) => 2n ** BigInt(r);
  // By rank, chunk and part: which ranks' values are in it.
  let held = Array.from({ length: n }, (_, r) => Array.from({ length: chunks }, (_c, c) => Array(halves).fill(gather ? (c === r ? bit(r) : 0n) : bit(r))));
  const arrived = Array.from({ length: n }, (_, r) => new Set([r]));
  for (let round = 0; round < t; round += 1) {
    const next = held.map((row) => row.map((c) => [...c]));
    for (const m of roundMessages(stages, n, n * 64, way, round, sizes)) {
      if (exchange) {
        if (m.to === m.chunk) arrived[m.to].add(m.origin);
        continue;
      }
      const h = m.part;
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
