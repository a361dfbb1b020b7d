import { h } from "../kit/dom.js";

/** Cores over time: one lane each, grouped by mesh, with what they access, wait for, signal and copy. */

const verbs = { read: "reads", write: "writes", accum: "adds to" };
const kinds = new Set(["read", "write", "both", "accum", "signal", "wait", "copy"]);
const laneHeight = 26;
const mostLanes = 256;

/** A word that may stand in a class name. */
export const known = (kind) => (kinds.has(kind) ? kind : "read");

/** `args[0][0:4, 7]` */
export function sliceText(name, slices) {
  return slices?.length ? `${name}[${slices.map(([low, high]) => (high === low + 1 ? low : `${low}:${high}`)).join(", ")}]` : name;
}

/** One access in words. */
export function accessText(e) {
  const where = sliceText(e.ref, e.slice);
  if (e.kind === "signal") return `signals ${where} (+${e.count || 1})${e.of ? ` of core ${e.of}` : ""}`;
  if (e.kind === "wait") return `waits for ${where} (${e.count || 1})${(e.until ?? -1) > e.t ? `, until t=${e.until}` : ""}`;
  if (e.kind === "copy") return `copies ${e.of || ""} to ${where}`;
  return `${verbs[e.kind] || e.kind} ${where}${e.masked ? `, ${e.masked} lanes masked` : ""}`;
}

/** The last place in ascending numbers that is at most `x`; -1 before all. */
export function lastAtMost(numbers, x) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (numbers[mid] <= x) low = mid + 1;
    else high = mid;
  }
  return low - 1;
}

/** @param {HTMLElement} host @param {any} kernel what `readKernel` gave @param {(t: number) => void} go */
export function mountLanes(host, kernel, go, bin) {
  const { run, accesses } = kernel;
  if (!accesses.length) {
    host.replaceChildren();
    host.hidden = true;
    return null;
  }
  host.hidden = false;
  const cores = [];
  for (const pair of kernel.pairs.length ? kernel.pairs : [{ fn: run.name, cores: [0] }]) for (const [i, core] of (pair.cores ?? [0]).entries()) cores.push({ core, pair, first: i === 0 });
  cores.length = Math.min(cores.length, mostLanes);
  const row = new Map(cores.map((c, i) => [c.core, i]));
  const waits = accesses.filter((e) => e.kind === "wait");
  const copies = accesses.filter((e) => e.kind === "copy" && (e.until ?? -1) > e.t);
  const starts = accesses.map((e) => e.t);
  const end = Math.max(run.time || 0, starts[starts.length - 1] + 1, ...waits.map((e) => (e.until ?? -1) + 1));
  let wide = Math.min(end, 120);
  let from = 0;
  let t = 0;
  const stage = h("div", { class: "xl-kernel-stage" });
  const says = h("p", { class: "xl-dim xl-kernel-waits", "aria-live": "polite" });
  const zoom = (factor) => () => {
    wide = Math.max(8, Math.min(end, Math.round(wide * factor), 400));
    center();
    draw();
  };
  const center = () => {
    if (t < from + 1 || t > from + wide * 0.9 || from + wide > end + 1) from = Math.max(0, Math.min(end - wide, Math.floor(t - wide / 4)));
  };

  function draw() {
    const room = Math.max(320, Math.min(1400, host.clientWidth || 900));
    const lefts = room < 640 ? 92 : 190;
    const width = room - lefts - 8;
    const px = width / wide;
    const x = (time) => (Math.max(from, Math.min(from + wide, time)) - from) * px;
    const y = (core) => 18 + (row.get(core) ?? 0) * laneHeight;
    const seen = (a, b = a + 1) => b > from && a < from + wide;
    const parts = [];
    const labels = [];
    for (const c of cores) {
      const low = y(c.core);
      parts.push(h("line", { x1: 0, x2: width, y1: low + laneHeight, y2: low + laneHeight, class: "xl-kernel-rule" }));
      labels.push(h("text", { x: -8, y: low + 17, class: "xl-axis xl-end" }, `${c.first && kernel.several && lefts > 100 ? `${(c.pair.fn || "").slice(0, 14)}${c.pair.core_type ? ` (${c.pair.core_type.slice(0, 10)})` : ""} · ` : ""}core ${c.core}`));
    }
    const turns = run.schedule || [];
    for (let i = Math.max(0, lastAtMost(turns.map((s) => s.t), from)); i < turns.length && turns[i].t < from + wide; i += 1) {
      const s = turns[i];
      if (row.has(s.core)) parts.push(h("rect", { x: x(s.t), width: Math.max(0.5, x(s.t + (s.equations ?? 1)) - x(s.t)), y: y(s.core) + 2, height: laneHeight - 4, class: "xl-kernel-turn" }));
    }
    for (const e of waits) {
      const until = (e.until ?? -1) < 0 ? end : e.until;
      if (until > e.t && seen(e.t, until)) parts.push(h("rect", { x: x(e.t), width: Math.max(2, x(until) - x(e.t)), y: y(e.core ?? 0) + 5, height: laneHeight - 10, class: "xl-kernel-waiting xl-hatch" }, h("title", {}, `core ${e.core ?? 0} ${accessText(e)}${(e.until ?? -1) < 0 ? ", for ever" : ""}`)));
    }
    for (const e of copies) if (seen(e.t, e.until)) parts.push(h("rect", { x: x(e.t), width: Math.max(2, x(e.until) - x(e.t)), y: y(e.core ?? 0) + laneHeight - 6, height: 4, class: "xl-kernel-ribbon" }, h("title", {}, `${accessText(e)}, complete at t=${e.until}`)));
    const first = Math.max(0, lastAtMost(starts, from - 1) + 1);
    for (let i = first; i < accesses.length && accesses[i].t < from + wide; i += 1) {
      const e = accesses[i];
      parts.push(h("rect", { x: x(e.t), width: Math.max(2.5, px * 0.86), y: y(e.core ?? 0) + 6, height: laneHeight - 12, class: `xl-kernel-event xl-k-${known(e.kind)}${e.t === t ? " xl-kernel-current" : ""}`, "data-t": e.t }, h("title", {}, `t=${e.t} core ${e.core ?? 0} ${accessText(e)}`)));
    }
    for (const [t0, c0, t1, c1, ref] of run.edges || []) {
      if (!seen(t0, t1 + 1)) continue;
      const [ax, ay, bx, by] = [x(t0 + 0.5), y(c0) + laneHeight / 2, x(t1 + 0.2), y(c1) + laneHeight / 2];
      const tip = by >= ay ? -5 : 5;
      parts.push(h("g", { class: "xl-kernel-signal" }, h("title", {}, `${ref}: core ${c0} at t=${t0} lets core ${c1} go on at t=${t1}`), h("path", { d: `M${ax.toFixed(1)} ${ay}C${ax.toFixed(1)} ${(ay + by) / 2} ${bx.toFixed(1)} ${(ay + by) / 2} ${bx.toFixed(1)} ${by + tip}` }), h("path", { class: "xl-tip", d: `M${(bx - 3.5).toFixed(1)} ${by + 1.6 * tip}L${(bx + 3.5).toFixed(1)} ${by + 1.6 * tip}L${bx.toFixed(1)} ${by}Z` })));
    }
    for (const r of run.races || []) {
      const [a, b] = r.times || [-1, -1];
      if (a < 0 || b < 0 || !seen(Math.min(a, b), Math.max(a, b) + 1)) continue;
      parts.push(h("line", { x1: x(a + 0.5), y1: y(r.cores[0]) + laneHeight / 2, x2: x(b + 0.5), y2: y(r.cores[1]) + laneHeight / 2, class: "xl-kernel-race" }, h("title", {}, `race on ${r.ref}`)));
    }
    const tick = Math.max(1, 10 ** Math.floor(Math.log10(wide / 4)) * (wide / 4 / 10 ** Math.floor(Math.log10(wide / 4)) >= 5 ? 5 : wide / 4 / 10 ** Math.floor(Math.log10(wide / 4)) >= 2 ? 2 : 1));
    for (let n = Math.ceil(from / tick) * tick; n <= from + wide; n += tick) parts.push(h("text", { x: x(n), y: 11, class: "xl-axis xl-mid" }, String(n)));
    const tall = 22 + cores.length * laneHeight;
    parts.push(h("line", { x1: x(t + 0.5), x2: x(t + 0.5), y1: 14, y2: tall, class: "xl-kernel-cursor" }));
    const svg = h("svg", { width: width + lefts + 8, height: tall, viewBox: `${-lefts} 0 ${width + lefts + 8} ${tall}`, role: "img", "aria-label": "cores over time", click: (event) => {
      const box = svg.getBoundingClientRect();
      const at = from + ((event.clientX - box.left) * ((width + lefts + 8) / (box.width || 1)) - lefts) / px;
      if (at >= from) go(Math.max(0, Math.min(end, Math.floor(at))));
    } }, parts, labels);
    stage.replaceChildren(svg);
  }

  /** Who waits for whom at this time. */
  function drawWaits() {
    const now = waits.filter((e) => e.t <= t && ((e.until ?? -1) < 0 || e.until > t));
    const edges = run.edges || [];
    says.textContent = now.map((e) => {
      const from = edges.find(([, , t1, c1, ref]) => t1 === e.until && c1 === (e.core ?? 0) && ref === e.ref);
      return `core ${e.core ?? 0} waits for ${sliceText(e.ref, e.slice)} since t=${e.t}${from ? `: core ${from[1]} signals it at t=${from[0]}` : (e.until ?? -1) < 0 ? ": nobody signals it" : ""}`;
    }).join("   ") || (kernel.several ? "nobody waits" : "");
  }
  host.replaceChildren(h("div", { class: "xl-kernel-lanes-head" }, h("h3", {}, kernel.several ? "cores over time" : "accesses over time"), h("button", { type: "button", title: "show less time", "aria-label": "zoom in", click: zoom(0.5) }, "+"), h("button", { type: "button", title: "show more time", "aria-label": "zoom out", click: zoom(2) }, "−"), h("small", {}, "one column per equation of the simulated schedule")), h("div", { class: "xl-scroll" }, stage), says);
  if (typeof ResizeObserver === "function") {
    let last = 0;
    const watch = new ResizeObserver(() => {
      if (Math.abs(host.clientWidth - last) < 4) return;
      last = host.clientWidth;
      draw();
    });
    watch.observe(host);
    bin.push(() => watch.disconnect());
  }
  return {
    show(time) {
      t = Math.max(0, time);
      center();
      draw();
      drawWaits();
    },
  };
}
