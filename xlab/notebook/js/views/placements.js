import { h } from "../kit/dom.js";
import { bytes, micros } from "../kit/format.js";

/** What a search found: a sentence, time against memory as a picture, a row for each placement. Values that are as usual are left out of records. */

export const specText = (spec) => `P(${spec.map((axes) => (!axes.length ? "None" : axes.length === 1 ? `'${axes[0]}'` : `(${axes.map((a) => `'${a}'`).join(", ")})`)).join(", ")})`;
export const axesText = (mesh) => (mesh?.axis_names || []).map((n, k) => `${n}=${mesh.axis_sizes[k]}`).join(" ");

/** The parts of a number of microseconds, as one bar: computing, then sending. */
function partsBar(p, most) {
  const wide = (us) => `width:${(100 * Math.min(1, (us || 0) / most)).toFixed(1)}%`;
  return h("span", { class: "xl-share xl-parts", title: `${micros(p.compute_us || 0)} computing, ${micros(p.predicted_us || 0)} sending` },
    h("span", { style: wide(p.compute_us) }), h("span", { class: "xl-sending", style: wide(p.predicted_us) }));
}

/** The sentence about what was found. */
export function verdict(found) {
  const list = found.found || [];
  const best = list[found.best ?? -1];
  const now = list.find((p) => p.name === "now");
  if (!best || !now) return found.done === false ? "nothing better found yet" : "nothing better found: what is stays";
  const parts = [];
  if (best.step_us < now.step_us) parts.push(`${micros(best.step_us)} a step instead of ${micros(now.step_us)}`);
  if ((best.peak || 0) < now.peak) parts.push(`${bytes(best.peak || 0)} per device instead of ${bytes(now.peak)}`);
  return `${best.name || "another placement"} is better: ${parts.join(", ")} (${best.estimated ? "estimated" : "compiled"})`;
}

/** Time of a step against memory of a device; the front is what no other placement beats in both. */
export function frontPicture(found, choose) {
  const list = (found.found || []).filter((p) => p.step_us > 0);
  if (list.length < 2) return null;
  const [wide, high, left, under] = [560, 190, 64, 30];
  const scale = (key, from, to) => {
    const logs = list.map((p) => Math.log(p[key] || 1));
    const [low, most] = [Math.min(...logs), Math.max(...logs)];
    const margin = (most - low || 1) * 0.08;
    return (v) => from + (to - from) * (Math.log(v || 1) - low + margin) / (most - low + 2 * margin || 1);
  };
  const x = scale("step_us", left, wide - 12);
  const y = scale("peak", high - under, 10);
  const ends = (key) => [Math.min(...list.map((p) => p[key] || 0)), Math.max(...list.map((p) => p[key] || 0))];
  const front = list.filter((p) => p.front).sort((a, b) => a.step_us - b.step_us);
  const steps = front.map((p, i) => `${i ? `H${x(p.step_us).toFixed(1)}V${y(p.peak).toFixed(1)}` : `M${x(p.step_us).toFixed(1)} ${y(p.peak).toFixed(1)}`}`).join("");
  const label = (tx, ty, text, anchor = "middle") => h("text", { x: tx, y: ty, "text-anchor": anchor, class: "xl-front-label" }, text);
  const device = found.memory && found.memory > ends("peak")[0] && found.memory < ends("peak")[1] ? y(found.memory) : null;
  const figure = h("svg", { class: "xl-front", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "time of a step against memory of a device" },
    h("path", { d: `M${left} 6V${high - under}H${wide - 6}`, class: "xl-front-axis" }),
    device === null ? null : h("path", { d: `M${left} ${device}H${wide - 6}`, class: "xl-front-room" }),
    steps ? h("path", { d: steps, class: "xl-front-line" }) : null,
    label(x(ends("step_us")[0]), high - 14, micros(ends("step_us")[0]), "start"), label(wide - 8, high - 14, micros(ends("step_us")[1]), "end"),
    label((left + wide) / 2, high - 2, "time of a step (better: left)"),
    label(left - 4, y(ends("peak")[0]), bytes(ends("peak")[0]), "end"), label(left - 4, y(ends("peak")[1]) + 8, bytes(ends("peak")[1]), "end"));
  list.forEach((p) => {
    const now = p.name === "now";
    const best = list.indexOf(p) >= 0 && found.found[found.best ?? -1] === p;
    const dot = h("circle", { cx: x(p.step_us).toFixed(1), cy: y(p.peak).toFixed(1), r: now || best ? 6 : 4, class: `xl-dot${now ? " xl-dot-now" : best ? " xl-dot-best" : ""}${p.estimated ? " xl-guess" : ""}`, click: () => choose(p) },
      h("title", {}, `${p.name ? `${p.name}: ` : ""}${micros(p.step_us)}, ${bytes(p.peak || 0)}, ${axesText(p.mesh)}${p.estimated ? ", estimated" : ", compiled"}`));
    figure.append(dot);
    if (now || best) figure.append(label(x(p.step_us), y(p.peak) - 9, now ? "now" : "best", x(p.step_us) > wide - 60 ? "end" : "middle"));
  });
  return figure;
}

/** Placements in order; `prove` compiles one, `use` puts it into the controls. */
export function placementTable(found, prove, use) {
  const list = found.found || [];
  const most = Math.max(...list.map((p) => p.step_us || 0), 1e-9);
  const best = found.best ?? -1;
  const heads = [["", "n"], ["placement"], ["mesh"], ["step", "n"], ["computing, sending"], ["per device", "n"], ["collectives", "n"], ["sent", "n"], [""]];
  return h("div", { class: "xl-scroll" }, h("table", { class: "xl-table xl-ranking" },
    h("thead", {}, h("tr", {}, heads.map(([text, side]) => h("th", { class: side || null }, text)))),
    h("tbody", {}, list.map((p, i) => h("tr", { class: p.name === "now" ? "xl-now" : i === best ? "xl-best" : null },
      h("td", { class: "n" }, String(i + 1)),
      h("td", { class: "xl-how", title: p.title }, h("b", {}, p.name ? `${p.name} ` : i === best ? "best " : ""), h("code", {}, p.name === "now" ? (p.title || "").replace(/^now: /, "") : p.title)),
      h("td", {}, axesText(p.mesh)), h("td", { class: "n" }, micros(p.step_us || 0)), h("td", {}, partsBar(p, most)),
      h("td", { class: found.memory && p.peak > found.memory ? "n xl-over" : "n", title: found.memory ? `a device has ${bytes(found.memory)}` : null }, bytes(p.peak || 0)),
      h("td", { class: "n" }, String(p.count || 0)), h("td", { class: "n" }, bytes(p.sent || 0)),
      h("td", {}, p.name === "now" ? h("small", {}, "what is") : h("span", { class: "xl-pairs" }, h("button", { type: "button", class: "xl-try", title: "compile it and set it beside what is", click: () => prove(p) }, p.estimated ? "prove" : "proven ✓"),
        h("button", { type: "button", class: "xl-try", title: "put it into the controls above", click: () => use(p) }, "use"))))))));
}
