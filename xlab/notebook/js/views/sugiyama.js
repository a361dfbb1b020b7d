/**
 * A layered drawing of a graph whose edges go from earlier to later nodes; linear in edges but for sorting within layers.
 * Layers by longest path, order by barycenters, places by their mean kept apart; edges over more than `reach` layers leave
 * the drawing and run in lanes at its side, one lane per source, so that they are bundled. `observe/figures/sugiyama.py` is the same.
 */

const reach = 4;
const gapX = 14;
const gapY = 26;

/** Neighbors of each node as slices of one array. */
function slices(count, from, to) {
  const start = new Int32Array(count + 1);
  for (let i = 0; i < from.length; i += 1) start[from[i] + 1] += 1;
  for (let i = 0; i < count; i += 1) start[i + 1] += start[i];
  const next = start.slice();
  const items = new Int32Array(from.length);
  for (let i = 0; i < from.length; i += 1) items[next[from[i]]++] = to[i];
  return { start, items };
}

/**
 * @param {number[]} widths @param {number[]} heights @param {number[]} from @param {number[]} to edges, `from[i] < to[i]`
 * @returns {{x: Float64Array, y: Float64Array, layer: Int32Array, width: number, height: number, links: number[][], lanes: any[]}}
 *   middles and tops of nodes; `links` are `[x1, y1, x2, y2, source, target or -1]`; `lanes` are `{x, source, top, targets: [[target, y]]}`
 */
export function sugiyamaLayout(widths, heights, from, to) {
  const n = widths.length;
  const layer = new Int32Array(n);
  const ins = slices(n, to, from);
  const outs = slices(n, from, to);
  for (let v = 0; v < n; v += 1) for (let e = ins.start[v]; e < ins.start[v + 1]; e += 1) layer[v] = Math.max(layer[v], layer[ins.items[e]] + 1);
  // What depends on one source alone, or on nothing, is drawn where it is used.
  const free = new Uint8Array(n);
  for (let v = 0; v < n; v += 1) {
    const one = ins.items[ins.start[v]];
    free[v] = ins.start[v] === ins.start[v + 1] || (ins.start[v] + 1 === ins.start[v + 1] && free[one] && outs.start[one] + 1 === outs.start[one + 1]) ? 1 : 0;
  }
  for (let v = n - 1; v >= 0; v -= 1) {
    if (free[v] && outs.start[v] < outs.start[v + 1]) {
      let least = 1 << 30;
      for (let e = outs.start[v]; e < outs.start[v + 1]; e += 1) least = Math.min(least, layer[outs.items[e]]);
      layer[v] = least - 1;
    }
  }
  // Bends: one chain per source, as long as its farthest edge within reach.
  const bends = new Int32Array(n + 1);
  const far = [];
  for (let v = 0; v < n; v += 1) {
    let most = 0;
    let long = false;
    for (let e = outs.start[v]; e < outs.start[v + 1]; e += 1) {
      const span = layer[outs.items[e]] - layer[v];
      if (span > reach) long = true;
      else most = Math.max(most, span - 1);
    }
    if (long) far.push(v);
    bends[v + 1] = bends[v] + most;
  }
  const all = n + bends[n];
  const row = new Int32Array(all);
  const half = new Float64Array(all).fill(3);
  const up = [];
  const down = [];
  const ends = [];
  for (let v = 0; v < n; v += 1) {
    row[v] = layer[v];
    half[v] = widths[v] / 2;
    for (let i = bends[v]; i < bends[v + 1]; i += 1) {
      row[n + i] = layer[v] + 1 + i - bends[v];
      up.push(i === bends[v] ? v : n + i - 1);
      down.push(n + i);
      ends.push(-1);
    }
    for (let e = outs.start[v]; e < outs.start[v + 1]; e += 1) {
      const span = layer[outs.items[e]] - layer[v];
      if (span > reach) continue;
      up.push(span === 1 ? v : n + bends[v] + span - 2);
      down.push(outs.items[e]);
      ends.push(outs.items[e]);
    }
  }
  const above = slices(all, down, up);
  const below = slices(all, up, down);
  let depth = 0;
  for (let v = 0; v < all; v += 1) depth = Math.max(depth, row[v] + 1);
  const layers = Array.from({ length: depth }, () => []);
  for (let v = 0; v < all; v += 1) layers[row[v]].push(v);
  const x = new Float64Array(all);
  const wish = new Float64Array(all);
  const wishes = (list, { start, items }) => {
    for (const v of list) {
      let sum = 0;
      for (let e = start[v]; e < start[v + 1]; e += 1) sum += x[items[e]];
      wish[v] = start[v] < start[v + 1] ? sum / (start[v + 1] - start[v]) : x[v];
    }
  };
  const pack = (list) => {
    let at = 0;
    for (const v of list) {
      x[v] = at + half[v];
      at += 2 * half[v] + gapX;
    }
    for (const v of list) x[v] -= (at - gapX) / 2;
  };
  const spread = (list) => {
    let low = -Infinity;
    for (const v of list) {
      x[v] = Math.max(wish[v], low + half[v]);
      low = x[v] + half[v] + gapX;
    }
    let high = Infinity;
    for (let i = list.length - 1; i >= 0; i -= 1) {
      const v = list[i];
      const right = Math.min(wish[v], high - half[v]);
      high = right - half[v] - gapX;
      x[v] = (x[v] + right) / 2;
    }
  };
  for (const list of layers) pack(list);
  for (let turn = 0; turn < 10; turn += 1) {
    const downwards = turn % 2 === 0;
    for (let i = 1; i < depth; i += 1) {
      const list = layers[downwards ? i : depth - 1 - i];
      wishes(list, downwards ? above : below);
      if (turn < 4) {
        list.sort((a, b) => wish[a] - wish[b]);
        pack(list);
      } else spread(list);
    }
  }
  const top = new Float64Array(depth + 1);
  for (let i = 0; i < depth; i += 1) {
    let tall = 0;
    for (const v of layers[i]) if (v < n) tall = Math.max(tall, heights[v]);
    top[i + 1] = top[i] + tall + gapY;
  }
  let left = Infinity;
  let right = -Infinity;
  for (let v = 0; v < n; v += 1) {
    left = Math.min(left, x[v] - half[v]);
    right = Math.max(right, x[v] + half[v]);
  }
  if (!n) left = right = 0;
  for (let v = 0; v < all; v += 1) x[v] -= left;
  const y = new Float64Array(all);
  for (let v = 0; v < all; v += 1) y[v] = top[row[v]];
  const foot = (v) => (v < n ? y[v] + heights[v] : y[v]);
  const owner = (v) => {
    if (v < n) return v;
    let low = 0;
    let high = n;
    while (high - low > 1) {
      const mid = (low + high) >> 1;
      if (bends[mid] <= v - n) low = mid;
      else high = mid;
    }
    return low;
  };
  const links = up.map((a, i) => [x[a], foot(a), x[down[i]], y[down[i]], owner(a), ends[i]]);
  // Lanes: taken by who starts first, free again below the last target.
  const busy = [];
  const lanes = far.sort((a, b) => foot(a) - foot(b)).map((v) => {
    const targets = [];
    for (let e = outs.start[v]; e < outs.start[v + 1]; e += 1) {
      const t = outs.items[e];
      if (layer[t] - layer[v] > reach) targets.push([t, y[t]]);
    }
    const last = targets.reduce((m, t) => Math.max(m, t[1]), 0);
    let lane = busy.findIndex((end) => end < foot(v));
    if (lane < 0) lane = busy.push(0) - 1;
    busy[lane] = last;
    return { x: lane, source: v, top: foot(v), targets };
  });
  const pace = Math.min(5, 800 / busy.length);
  for (const lane of lanes) lane.x = right - left + gapX + pace * lane.x;
  return {
    x: x.subarray(0, n), y: y.subarray(0, n), layer, links, lanes,
    width: right - left + (busy.length ? gapX + pace * busy.length : 0), height: Math.max(0, top[depth] - gapY),
  };
}
