import { h, icon } from "../kit/dom.js";
import { makeBus } from "../kit/bus.js";
import { real, significant } from "../kit/format.js";
import { jaxprColumn, pythonColumn, readProgram } from "./program.js";

/** A run, scrubbed: transport, the whole run as nested bands, code, and the values alive now. */

/** Ask the kernel; without one, or when it refuses, the promise fails with words to show. */
function asker(model, bin) {
  if (!model?.send) return null;
  let number = 0;
  const waiting = new Map();
  const hear = (message) => {
    const found = waiting.get(message?.id);
    if (!found) return;
    waiting.delete(message.id);
    if (message.error) found[1](new Error(message.error));
    else found[0](message.answer);
  };
  model.on("msg:custom", hear);
  bin.push(() => model.off("msg:custom", hear));
  return (ask, values) => new Promise((resolve, reject) => {
    number += 1;
    waiting.set(number, [resolve, reject]);
    model.send({ id: number, ask, arguments: values });
  });
}

function heatGrid(grid, low, high) {
  const width = Math.max(...grid.map((r) => r.length));
  const size = Math.max(3, Math.min(9, Math.floor(52 / Math.max(width, grid.length))));
  const cells = grid.flatMap((row, y) => row.map((v, x) => {
    const value = real(v);
    const share = high > low ? (value - low) / (high - low) : 0.5;
    return h("rect", { x: x * size, y: y * size, width: size, height: size, class: Number.isFinite(value) ? "xl-warm" : "xl-nan", style: Number.isFinite(value) ? `fill-opacity:${(0.08 + 0.92 * share).toFixed(2)}` : null });
  }));
  return h("svg", { class: "xl-grid", width: width * size, height: grid.length * size, role: "img", "aria-label": "heatmap" }, cells);
}

/** One live value: name, type, range, histogram, entries, a heatmap per device in mesh order. */
export function valueNode(v, fresh, faded, columns) {
  const low = real(v.min);
  const high = real(v.max);
  const bad = (v.nans || 0) + (v.infs || 0);
  const words = [];
  if (low !== undefined && low !== null) words.push(`${significant(low)} … ${significant(high)}`);
  if (v.mean !== undefined && v.mean !== null) words.push(`mean ${significant(real(v.mean))}`);
  const bars = v.histogram?.length ? h("svg", { class: "xl-hist", width: v.histogram.length * 4, height: 16, role: "img", "aria-label": "histogram" },
    v.histogram.map((n, i) => { const tall = (16 * n) / Math.max(1, ...v.histogram); return h("rect", { x: i * 4, y: 16 - tall, width: 3, height: tall }); })) : null;
  const shards = (v.shards || []).slice(0, 64).map((s) => h("figure", { class: "xl-shard", title: `device ${s.device}: ${significant(real(s.min) ?? 0)} … ${significant(real(s.max) ?? 0)}` },
    h("figcaption", {}, String(s.device)), s.heat?.length ? heatGrid(s.heat, low, high) : h("span", { class: "xl-dim" }, s.mean === undefined ? "" : significant(real(s.mean)))));
  const entries = (v.preview || []).map((x) => { const n = real(x); return typeof n === "number" ? significant(n, true) : String(n); }).join(", ");
  return h("div", { class: `xl-value${fresh ? " xl-fresh" : ""}${faded ? " xl-faded" : ""}` },
    h("div", { class: "xl-value-head" }, h("code", {}, h("b", {}, v.name), `  ${v.type}`), v.note ? h("small", {}, v.note) : null, bars,
      h("span", {}, words.join("  ")), bad ? h("b", { class: "xl-sign" }, `⚠ ${v.nans ? `${v.nans} NaN ` : ""}${v.infs ? `${v.infs} Inf` : ""}`) : null),
    shards.length ? h("div", { class: "xl-shards", style: columns ? `grid-template-columns:repeat(${columns},max-content)` : "" }, shards) : v.heat?.length ? heatGrid(v.heat, low, high) : null,
    entries && fresh ? h("div", { class: "xl-dim" }, `[${entries}${v.type.endsWith("[]") ? "" : ", …"}]`) : null);
}

/** @param {HTMLElement} host @param {any} data steps as columns @param {any} model the widget, or null */
export function mountStepper(host, data, model, bin, outer) {
  const program = readProgram(data.program, 0);
  const bus = makeBus();
  const ask = asker(model, bin);
  const steps = new Map(data.steps.map((s) => [s.index, s]));
  const total = data.total;
  let at = 0;
  let cursor = -1;
  const python = pythonColumn(program, bus, bin);
  const jaxpr = jaxprColumn(program, bus, bin);
  const columns = [python, jaxpr].filter(Boolean);
  const values = h("div", { class: "xl-values", "aria-live": "polite" });
  const where = h("span", { class: "xl-path" });
  const place = h("output", { class: "xl-place" });
  const note = h("p", { class: "xl-error", hidden: true });
  const slider = h("input", { type: "range", class: "xl-scrub", min: 0, max: Math.max(0, total - 1), value: 0, "aria-label": "step", input: () => go(+slider.value) });
  const depth = (i) => steps.get(i)?.path.length ?? 0;
  const bad = (i) => steps.get(i)?.outputs.some((v) => v.nans || v.infs);
  const seek = (from, by, test) => {
    for (let i = from + by; i >= 0 && i < total; i += by) if (steps.has(i) && test(i)) return i;
    return -1;
  };
  const local = {
    next: () => at + 1,
    back: () => at - 1,
    first: () => 0,
    last: () => total - 1,
    into: () => (depth(at + 1) > depth(at) ? at + 1 : seek(at, 1, (i) => depth(i) > depth(at))),
    out: () => seek(at, 1, (i) => depth(i) < depth(at)),
    nan: () => seek(at, 1, bad),
    cursor: () => seek(at, 1, (i) => steps.get(i).equation === cursor),
  };
  const say = (text) => {
    note.hidden = !text;
    note.textContent = text;
  };

  async function move(how) {
    say("");
    const next = local[how]();
    if (next >= 0 && next < total && steps.has(next)) return go(next);
    if (ask && (next < 0 || !steps.has(next)) && !(how === "next" && at >= total - 1)) {
      try {
        const step = await ask("move", { how, index: at, equation: cursor });
        steps.set(step.index, { path: [], dead: [], outputs: [], index: 0, ...step });
        return go(step.index);
      } catch (error) {
        return say(error.message);
      }
    }
    if (how === "nan") say("no NaN or Inf after this step");
    else if (how === "cursor") say(cursor < 0 ? "choose a line of the jaxpr first" : "that equation does not run after this step");
    return undefined;
  }

  async function go(i) {
    if (!steps.has(i) && ask) {
      try {
        const step = await ask("move", { how: "goto", index: i, equation: -1 });
        steps.set(step.index, { path: [], dead: [], outputs: [], index: 0, ...step });
      } catch (error) {
        return say(error.message);
      }
    }
    const step = steps.get(i);
    if (!step) return say(`step ${i + 1} was not recorded`);
    at = i;
    slider.value = String(i);
    place.textContent = `step ${i + 1} / ${total}`;
    where.textContent = step.path.join(" ▸ ");
    bus.select([program.key(step.equation)], slider);
    drawValues();
    return undefined;
  }

  function drawValues() {
    const mesh = data.program.mesh;
    const across = mesh ? mesh.sizes[mesh.sizes.length - 1] : 0;
    const seen = new Map();
    const dead = new Set();
    const here = depth(at);
    for (const v of data.inputs) seen.set(v.name, [v, false]);
    for (let i = Math.max(0, at - 400); i <= at; i += 1) {
      const s = steps.get(i);
      if (!s || s.path.length > here) continue;
      for (const name of s.dead) dead.add(name);
      for (const v of s.outputs) {
        seen.delete(v.name);
        seen.set(v.name, [v, i === at]);
        if (!s.dead.includes(v.name)) dead.delete(v.name);
      }
    }
    const list = [...seen.values()].reverse().slice(0, 40);
    values.replaceChildren(...list.map(([v, fresh]) => valueNode(v, fresh, dead.has(v.name), across)));
  }

  function drawBands() {
    const n = Math.min(total, 2000);
    const deepest = Math.max(1, ...[...steps.values()].map((s) => s.path.length));
    const bands = [];
    for (let level = 1; level <= deepest; level += 1) {
      let from = -1;
      for (let k = 0; k <= n; k += 1) {
        const inside = k < n && depth(Math.floor((k * total) / n)) >= level;
        if (inside && from < 0) from = k;
        if (!inside && from >= 0) {
          bands.push(h("rect", { x: `${(100 * from) / n}%`, width: `${(100 * (k - from)) / n}%`, y: 2 + level * 4, height: Math.max(2, 18 - level * 4), class: "xl-band-deep" }));
          from = -1;
        }
      }
    }
    for (const s of steps.values()) if (bad(s.index)) bands.push(h("path", { class: "xl-nan-mark", d: "M-4 0L4 0L0 6Z", transform: `translate(${(1000 * (s.index + 0.5)) / total} 0)` }));
    return h("svg", { class: "xl-bands", viewBox: "0 0 1000 22", preserveAspectRatio: "none", "aria-hidden": "true" }, bands);
  }

  const button = (word, title, how) => h("button", { type: "button", title, "aria-label": title, click: () => move(how) }, icon(how === "next" ? "play" : how), word);
  const bar = h("div", { class: "xl-transport", role: "toolbar", "aria-label": "stepper" },
    button("", "first step", "first"), button("", "one step back (left)", "back"), button("", "one step (right)", "next"), button("", "last step", "last"),
    button("into", "into the nested program (down)", "into"), button("out", "out of the nested program (up)", "out"), button("to cursor", "run to the chosen equation", "cursor"), button("first NaN", "run to the first NaN or Inf", "nan"), place, where);
  host.replaceChildren(bar, h("div", { class: "xl-scrubber" }, drawBands(), slider), note,
    h("div", { class: "xl-columns xl-stepping" }, columns.map((c) => c.el), h("div", { class: "xl-column" }, h("div", { class: "xl-column-title" }, "variables"), values)));
  bus.on((keys, from) => {
    const ids = keys.map(program.id).filter((id) => program.at.has(id));
    if (from !== slider && ids.length) cursor = ids[0];
    for (const c of columns) c.light(ids, [], from);
    if (ids.length && outer) outer.select([program.key(ids[0])], bus);
  });
  const turn = { ArrowRight: "next", ArrowLeft: "back", ArrowDown: "into", ArrowUp: "out" };
  return {
    start() {
      for (const c of columns) c.start();
      if (total) go(steps.has(0) ? 0 : data.steps[0]?.index ?? 0);
    },
    key(name) {
      if (!turn[name]) return false;
      move(turn[name]);
      return true;
    },
  };
}
