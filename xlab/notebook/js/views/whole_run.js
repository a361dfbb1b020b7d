import { h } from "../kit/dom.js";
import { real, significant } from "../kit/format.js";

/** What the kernel tells of a whole run: who made the first NaN, and one variable over all iterations and devices. */

const hues = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

/** The equations from the cause of a NaN to its result; a press goes to the step. */
export function nanPathNode(found, go, shown) {
  // By the user's names, as the program beside it; parameters are read there.
  const words = (s) => {
    const names = new Set([...(s.inputs || []), ...(s.outputs || [])].map((v) => v.name));
    return (s.text || "").replace(/\[\w+=[^\]]*\]+/, "").replace(/[A-Za-z_]\w*/g, (word) => (names.has(word) ? shown(word) : word));
  };
  const steps = found.steps || [];
  if (!steps.length) return h("p", { class: "xl-dim" }, `no NaN in this run${found.origin ? `; ${found.origin}, and an infinity is no NaN` : ""}`);
  return h("div", { class: "xl-nan-path" },
    h("p", {}, h("b", {}, "who made the first NaN"), `   ${found.result} has it, from ${found.origin || "a constant"}${found.origin && (found.maker ?? -1) < 0 ? ", which came with it," : ""} along ${found.total || steps.length} equation${steps.length > 1 ? "s" : ""}`),
    steps.map((s, n) => h("div", { role: "button", tabindex: "0", class: n === (found.maker ?? -1) ? "xl-nan-maker" : "", click: () => go(s.index || 0) },
      h("small", {}, `step ${(s.index || 0) + 1}`), h("code", {}, words(s)), h("span", {}, found.words[n]), s.path?.length ? h("small", {}, s.path.join(" ▸ ")) : null,
      s.source ? h("small", {}, `line ${s.source.line}`) : null, n === (found.maker ?? -1) ? h("b", {}, "◀ the first NaN") : null)));
}

/** A variable over a run: a line per device, a band from least to largest where there is one device; a press goes to the step. */
export function seriesNode(found, go, at) {
  const points = found.points || [];
  const devices = points[0]?.value.shards?.length || 0;
  const width = 640;
  const tall = 110;
  const mean = (p, d) => real(devices ? p.value.shards?.[d]?.mean : p.value.mean);
  const numbers = points.flatMap((p) => (devices ? (p.value.shards || []).map((s) => real(s.mean)) : [real(p.value.min), real(p.value.max)])).filter((x) => Number.isFinite(x));
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const x = (i) => (points.length > 1 ? 4 + (i * (width - 8)) / (points.length - 1) : width / 2);
  const y = (v) => tall - 8 - ((v - low) / (high - low || 1)) * (tall - 16);
  const line = (of) => points.map((p, i) => [i, of(p)]).filter(([, v]) => Number.isFinite(v)).map(([i, v], n) => `${n ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  const drawn = devices ? Array.from({ length: Math.min(devices, 32) }, (_, d) => h("path", { d: line((p) => mean(p, d)), style: `stroke:${hues[d % hues.length]}` }, h("title", {}, `device ${points[0].value.shards[d].device}`)))
    : [h("path", { class: "xl-series-band", d: line((p) => real(p.value.max)) }), h("path", { class: "xl-series-band", d: line((p) => real(p.value.min)) }), h("path", { d: line((p) => mean(p)) })];
  const marks = points.map((p, i) => (p.value.nans ? h("path", { class: "xl-nan-mark", d: "M-4 0L4 0L0 6Z", transform: `translate(${x(i).toFixed(1)} 0)` }) : null));
  const here = points.findIndex((p) => p.step === at);
  const chart = h("svg", { viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": `${found.name} over ${points.length} values`, click: (event) => {
    const box = chart.getBoundingClientRect();
    const i = Math.round(((((event.clientX - box.left) * width) / (box.width || 1) - 4) / (width - 8)) * (points.length - 1));
    if (points[i]) go(points[i].step || 0);
  } }, drawn, marks, here >= 0 ? h("line", { x1: x(here), x2: x(here), y1: 0, y2: tall, class: "xl-series-here" }) : null);
  const cell = (v) => (typeof v === "number" ? significant(v) : "–");
  const rows = points.slice(0, 500).map((p) => h("tr", {}, h("td", { class: "n" }, String((p.step || 0) + 1)), h("td", {}, (p.path || []).join(" ▸ ")),
    ...[p.value.min, p.value.mean, p.value.max].map((v) => h("td", { class: "n" }, cell(real(v)))), h("td", { class: "n" }, p.value.nans ? `⚠ ${p.value.nans} NaN` : ""),
    h("td", {}, (p.value.shards || []).slice(0, 8).map((s) => cell(real(s.mean))).join("  "))));
  const more = (found.total || 0) - points.length;
  return h("div", { class: "xl-series" },
    h("p", {}, h("b", {}, found.name), `   ${found.total} values over the run${devices ? `, the mean on each of ${devices} devices` : ", mean, least and largest"}   ${Number.isFinite(low) ? `${significant(low)} … ${significant(high)}` : "no finite value"}${more > 0 ? `   ${more} later ones not shown` : ""}`),
    Number.isFinite(low) ? chart : null,
    h("details", {}, h("summary", {}, "as a table"), h("table", { class: "xl-table" }, h("thead", {}, h("tr", {}, ["step", "in", "min", "mean", "max", "", devices ? "mean by device" : ""].map((t) => h("th", {}, t)))), h("tbody", {}, rows))));
}
