import { h } from "../kit/dom.js";
import { real, significant } from "../kit/format.js";

/** Arrays drawn as their blocks, and buffers drawn as their cells. */

const mostBlocks = 1024;
const blocksWide = 232;
const blocksTall = 168;

/** How the last two dimensions of an array lie on the page, and which positions of the others are drawn. */
function planeOf(o, blocks, now) {
  const shape = o.shape || [];
  const rank = shape.length;
  const flat = (e, part, d) => (d >= 0 ? e[part][d] : part === "start" ? 0 : 1);
  const rows = rank > 1 ? shape[rank - 2] : 1;
  const cols = rank > 0 ? shape[rank - 1] : 1;
  let [top, left, bottom, right] = [0, 0, rows, cols];
  for (const e of blocks) {
    top = Math.min(top, flat(e, "start", rank - 2));
    left = Math.min(left, flat(e, "start", rank - 1));
    bottom = Math.max(bottom, flat(e, "start", rank - 2) + flat(e, "shape", rank - 2));
    right = Math.max(right, flat(e, "start", rank - 1) + flat(e, "shape", rank - 1));
  }
  const scale = Math.min(26, blocksWide / Math.max(1, right - left), blocksTall / Math.max(1, bottom - top));
  const wide = Math.max(26, (right - left) * scale);
  const tall = Math.max(18, (bottom - top) * scale);
  const sx = wide / Math.max(1, right - left);
  const sy = tall / Math.max(1, bottom - top);
  const lead = shape.slice(0, Math.max(0, rank - 2));
  const total = lead.reduce((a, b) => a * b, 1);
  const at = lead.map((_, d) => Math.max(0, Math.min(lead[d] - 1, now[0] ? (now[0].start ? now[0].start[d] : now[0].slice[d][0]) : 0)));
  const facets = total > 1 && total <= 6 ? Array.from({ length: total }, (_, n) => lead.map((_, d) => Math.floor(n / lead.slice(d + 1).reduce((a, b) => a * b, 1)) % lead[d])) : [at];
  return { rank, rows, cols, wide, tall, facets, lead, total,
    /** x, y, width, height of a part given by start and size. */
    box: (start, size) => {
      const [y, x] = rank > 1 ? [start[rank - 2], start[rank - 1]] : [0, rank ? start[0] : 0];
      const [tallSize, wideSize] = rank > 1 ? [size[rank - 2], size[rank - 1]] : [1, rank ? size[0] : 1];
      return { x: (x - left) * sx, y: (y - top) * sy, width: Math.max(1, wideSize * sx), height: Math.max(1, tallSize * sy) };
    },
    in: (facet, start, size) => lead.every((_, d) => start[d] <= facet[d] && facet[d] < start[d] + size[d]),
  };
}

/** Many blocks as a coarse raster of their visits: four shades, a path each. */
function rasterOf(plane, blocks, counts, facet) {
  const [across, down] = [Math.min(64, Math.ceil(plane.wide / 3)), Math.min(48, Math.ceil(plane.tall / 3))];
  const cells = new Float64Array(across * down);
  let most = 0;
  for (let i = 0; i < blocks.length; i += 1) {
    if (!counts[i] || !plane.in(facet, blocks[i].start, blocks[i].shape)) continue;
    const b = plane.box(blocks[i].start, blocks[i].shape);
    const at = Math.min(down - 1, Math.floor(((b.y + b.height / 2) / plane.tall) * down)) * across + Math.min(across - 1, Math.floor(((b.x + b.width / 2) / plane.wide) * across));
    cells[at] += counts[i];
    if (cells[at] > most) most = cells[at];
  }
  const [w, tall] = [plane.wide / across, plane.tall / down];
  const shades = [[], [], [], []];
  cells.forEach((n, at) => n && shades[Math.min(3, Math.floor((4 * n - 1) / most))].push(`M${((at % across) * w).toFixed(1)} ${(Math.floor(at / across) * tall).toFixed(1)}h${w.toFixed(1)}v${tall.toFixed(1)}h-${w.toFixed(1)}z`));
  return shades.map((d, i) => (d.length ? h("path", { d: d.join(""), class: "xl-kernel-heat", style: `fill-opacity:${(0.1 + 0.12 * i).toFixed(2)}` }) : null)).filter(Boolean);
}

const sizeOf = (slices) => slices.map(([low, high]) => high - low);
const startOf = (slices) => slices.map(([low]) => low);
const short = (e) => (e.pad || []).some((n) => n > 0);

/** The parts of a block that lie outside of its array, as start and size. */
function outside(o, e) {
  const out = [];
  const start = [...e.start];
  const size = [...e.shape];
  for (let d = o.shape.length - 1; d >= 0 && out.length < 4; d -= 1) {
    const cut = (from, long) => out.push([start.map((s, k) => (k === d ? from : s)), size.map((n, k) => (k === d ? long : n))]);
    if (start[d] < 0) {
      cut(start[d], Math.min(size[d], -start[d]));
      size[d] = Math.max(0, size[d] + start[d]);
      start[d] = 0;
    }
    if (start[d] + size[d] > o.shape[d]) {
      const from = Math.max(start[d], o.shape[d]);
      cut(from, start[d] + size[d] - from);
      size[d] = Math.max(0, from - start[d]);
    }
  }
  return out;
}

/** What a block's hover says. */
export function blockTitle(o, e) {
  const list = (xs) => `(${(xs || []).join(", ")})`;
  return [`${o.name} block ${list(e.index)}: ${e.io === "both" ? "read and written" : e.io === "write" ? "written" : "read"}`, `start ${list(e.start)}, shape ${list(e.shape)}${e.squeezed?.length ? `, squeezed ${list(e.squeezed)}` : ""}`,
    short(e) ? `padding ${list(e.pad)}` : "", e.clamped ? "clamped: its start was moved to keep it inside" : "", `visit ${e.visit ?? 1}`, o.index_map ? `index map ${o.index_map}` : "", o.source ? `${o.source.file}:${o.source.line}` : ""].filter(Boolean).join("\n");
}

/** Element numbers along an edge: about five. */
function edgeTicks(n, extra, place) {
  const step = Math.max(1, extra || Math.ceil(n / 4));
  const all = [];
  for (let i = 0; i <= n; i += step) all.push(i);
  const every = Math.ceil(all.length / 6);
  return [...all.filter((_, i) => i % every === 0 && n - all[i] >= (step * every) / 2), n].filter((x, i, xs) => xs.indexOf(x) === i).map(place);
}

/**
 * One operand with its blocks.
 * @param {any} o the operand @param {{blocks: any[], counts: Uint32Array|null, now: any[], touched: any[], parts: any[]}} what
 */
export function blockFigure(o, { blocks, counts, now, touched, parts }) {
  const plane = planeOf(o, blocks, now.length ? now : touched.length ? touched : parts);
  let most = 1;
  if (counts) for (const n of counts) if (n > most) most = n;
  const many = blocks.length > mostBlocks;
  const pictures = plane.facets.map((facet) => {
    const drawn = [h("rect", { ...plane.box(o.shape.map(() => 0), o.shape), class: "xl-cell" })];
    if (counts && many) {
      drawn.push(...rasterOf(plane, blocks, counts, facet));
    } else if (!many) {
      blocks.forEach((e, i) => {
        if (!plane.in(facet, e.start, e.shape)) return;
        const n = counts ? counts[i] : 0;
        drawn.push(h("rect", { ...plane.box(e.start, e.shape), class: "xl-kernel-block xl-kernel-heat", "data-visits": n, style: `fill-opacity:${n ? (0.06 + (0.36 * n) / most).toFixed(2) : 0}` }, h("title", {}, `${o.name} from (${e.start.join(", ")}): ${n === 1 ? "1 visit" : `${n} visits`} so far`)));
      });
    }
    for (const e of now) {
      if (!plane.in(facet, e.start, e.shape)) continue;
      drawn.push(h("g", { class: `xl-kernel-now xl-kernel-${["write", "both"].includes(e.io) ? e.io : "read"}${e.clamped ? " xl-kernel-clamped" : ""}` },
        h("title", {}, blockTitle(o, e)), h("rect", { ...plane.box(e.start, e.shape), class: "xl-kernel-face" }),
        outside(o, e).map(([start, size]) => h("rect", { ...plane.box(start, size), class: "xl-kernel-pad xl-hatch" }))));
    }
    for (const [list, name] of [[parts, "xl-kernel-part"], [touched, "xl-kernel-touch"]]) {
      for (const e of list.slice(0, 64)) {
        if (!plane.in(facet, startOf(e.slice), sizeOf(e.slice))) continue;
        drawn.push(h("rect", { ...plane.box(startOf(e.slice), sizeOf(e.slice)), class: `${name} xl-kernel-${{ read: "read", signal: "sync", wait: "sync" }[e.kind] || "write"}` }, h("title", {}, `core ${e.core ?? 0} at t=${e.t}`)));
      }
    }
    const e = now[0] || blocks[0];
    const size = (d) => (e && d >= 0 ? e.shape[d] : 0);
    const across = plane.rank ? edgeTicks(plane.cols, size(plane.rank - 1), (n) => h("text", { x: plane.box(o.shape.map((_, d) => (d === plane.rank - 1 ? n : 0)), o.shape).x, y: plane.tall + 13, class: "xl-axis xl-mid" }, String(n))) : [];
    const down = plane.rank > 1 ? edgeTicks(plane.rows, size(plane.rank - 2), (n) => h("text", { x: -6, y: plane.box(o.shape.map((_, d) => (d === plane.rank - 2 ? n : 0)), o.shape).y + 4, class: "xl-axis xl-end" }, String(n))) : [];
    const left = plane.rank > 1 ? 34 : 10;
    return h("figure", {}, plane.lead.length ? h("figcaption", {}, `[${facet.join(", ")}, :, :]${plane.total > plane.facets.length ? ` of ${plane.total}` : ""}`) : null,
      h("svg", { width: plane.wide + left + 16, height: plane.tall + 22, viewBox: `${-left} -4 ${plane.wide + left + 16} ${plane.tall + 22}`, role: "img", "aria-label": `blocks of ${o.name}` }, drawn, across, down));
  });
  const here = now[0];
  return h("div", { class: "xl-kernel-operand", "data-operand": o.name },
    h("div", { class: "xl-kernel-name" }, h("b", {}, o.name), " ", h("code", {}, `${o.dtype}[${o.shape.join(",")}]`), h("small", {}, ` ${o.role || "input"}${o.space && o.space !== "any" ? `, ${o.space}` : ""}`)),
    ...pictures,
    h("div", { class: "xl-dim xl-kernel-index" }, here ? `block (${(here.index || []).join(", ")}) of ${blocks.length.toLocaleString("en")}, visit ${here.visit ?? 1}${short(here) ? `, padding (${here.pad.join(", ")})` : ""}${here.clamped ? ", clamped" : ""}` : o.block?.length ? "" : "whole"));
}

/** A buffer's cells: numbers where there are few, a heat map where there are many; grey is uninitialized. */
export function bufferNode(b, cells, fresh) {
  const [rows, cols] = b.exact === false ? b.grid || [1, 1] : smallGrid(b.shape || [], cells.length);
  const numbers = cells.map((c) => (c === null || c === undefined ? null : real(c)));
  const finite = numbers.filter((n) => n !== null && Number.isFinite(n));
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const words = cells.length <= 64 && b.exact !== false;
  const [w, tall] = words ? [52, 19] : [Math.max(4, Math.min(12, Math.floor(200 / Math.max(1, cols)))), Math.max(4, Math.min(12, Math.floor(150 / Math.max(1, rows))))];
  const shown = numbers.slice(0, rows * cols).map((n, i) => {
    const at = { x: (i % cols) * w, y: Math.floor(i / cols) * tall, width: w, height: tall };
    const name = n === null ? "xl-kernel-uninitialized" : Number.isFinite(n) ? "xl-warm" : "xl-nan";
    const share = high > low ? (n - low) / (high - low) : 0.4;
    const said = n === null ? "uninitialized" : String(n);
    return h("g", {}, h("title", {}, said), h("rect", { ...at, class: `xl-kernel-cell ${name}`, style: name === "xl-warm" ? `fill-opacity:${(0.06 + 0.5 * share).toFixed(2)}` : name === "xl-nan" ? "fill-opacity:.5" : null }),
      words ? h("text", { x: at.x + w / 2, y: at.y + 13.5, class: "xl-cell-label" }, n === null ? "·" : Number.isInteger(n) && Math.abs(n) < 1e6 ? String(n) : significant(n, true)) : null);
  });
  const bad = numbers.filter((n) => n !== null && Number.isNaN(n)).length;
  const empty = numbers.filter((n) => n === null).length;
  return h("div", { class: `xl-value${fresh ? " xl-fresh" : ""}`, "data-buffer": b.name },
    h("div", { class: "xl-value-head" }, h("code", {}, h("b", {}, b.name), `  ${b.dtype}[${(b.shape || []).join(",")}]`), finite.length ? h("span", {}, low === high ? significant(low) : `${significant(low)} … ${significant(high)}`) : null,
      empty ? h("small", {}, empty === numbers.length ? "uninitialized" : `${empty} of ${numbers.length} cells uninitialized`) : null, bad ? h("b", { class: "xl-sign" }, `⚠ ${bad} NaN`) : null, b.exact === false ? h("small", {}, "means") : null),
    h("svg", { class: "xl-grid", width: cols * w, height: rows * tall, viewBox: `0 0 ${cols * w} ${rows * tall}`, role: "img", "aria-label": `contents of ${b.name}` }, shown));
}

/** Rows and columns for a small array: its last dimension across, or lines of eight. */
function smallGrid(shape, count) {
  const last = shape.length ? shape[shape.length - 1] : 1;
  const cols = shape.length > 1 && last >= 1 && last <= 16 ? last : Math.max(1, Math.min(8, count));
  return [Math.ceil(count / cols), cols];
}
