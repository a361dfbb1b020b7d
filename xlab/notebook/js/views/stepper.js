import { asker } from "../kit/ask.js";
import { h, icon } from "../kit/dom.js";
import { resizable } from "./edges.js";
import { makeBus } from "../kit/bus.js";
import { real, significant } from "../kit/format.js";
import { definePanel } from "../kit/panels.js";
import { nanPathNode, seriesNode } from "./whole_run.js";
import { jaxprColumn, pythonColumn, readProgram } from "./program.js";

/** A run, scrubbed: transport, the whole run as nested bands, code, and the values alive now. */

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

/** One panel per device, where the device stands in the mesh: the last axis across, the others down; in device order where there is no mesh. */
function shardPanels(v, low, high, mesh, devices) {
  const shards = v.shards.slice(0, 64);
  const place = new Map((devices || []).map((id, at) => [id, at]));
  const across = mesh ? mesh.sizes[mesh.sizes.length - 1] : 0;
  const figure = (s, style) => h("figure", { class: `xl-shard${s.nans ? " xl-shard-bad" : ""}`, style, title: `device ${s.device}: ${significant(real(s.min) ?? 0)} … ${significant(real(s.max) ?? 0)}` },
    h("figcaption", {}, String(s.device), s.nans ? " ⚠" : ""), s.heat?.length ? heatGrid(s.heat, low, high) : h("span", { class: "xl-dim" }, typeof real(s.mean) === "number" ? significant(real(s.mean)) : ""));
  if (!across || !shards.every((s) => place.has(s.device))) return h("div", { class: "xl-shards" }, shards.map((s) => figure(s, null)));
  const outer = mesh.names.slice(0, -1);
  const sizes = mesh.sizes.slice(0, -1);
  const label = (row) => outer.map((name, i) => `${name} ${Math.floor(row / sizes.slice(i + 1).reduce((a, b) => a * b, 1)) % sizes[i]}`).join(" ");
  const rows = [...new Set(shards.map((s) => Math.floor(place.get(s.device) / across)))].sort((a, b) => a - b);
  const at = (row, column) => `grid-row:${row};grid-column:${column}`;
  return h("div", { class: "xl-shards xl-mesh-panels", role: "group", "aria-label": "devices in mesh coordinates" },
    Array.from({ length: across }, (_, c) => h("span", { class: "xl-shard-axis", style: at(1, c + 2) }, `${mesh.names[mesh.names.length - 1]} ${c}`)),
    rows.map((row, k) => h("span", { class: "xl-shard-axis", style: at(k + 2, 1) }, label(row))),
    shards.map((s) => figure(s, at(rows.indexOf(Math.floor(place.get(s.device) / across)) + 2, (place.get(s.device) % across) + 2))));
}

/** One live value: name, type, range, histogram, entries, a heatmap per device where it stands in the mesh. */
export function valueNode(v, { fresh, faded, tag, was, mesh, devices, tools, called = v.name }) {
  const low = real(v.min);
  const high = real(v.max);
  const span = (x) => (typeof real(x.min) !== "number" ? "" : real(x.min) === real(x.max) ? significant(real(x.min)) : `${significant(real(x.min))} … ${significant(real(x.max))}`);
  const entries = (v.preview || []).map((x) => { const n = real(x); return typeof n === "number" ? significant(n, true) : String(n); }).join(", ");
  const single = v.type.endsWith("[]") && !v.shards?.length && Boolean(entries) && !v.nans && !v.infs;
  const words = [];
  if (single) words.push(entries); // one number is written once, as it is
  else if (span(v) && !v.type.startsWith("bool")) words.push(span(v));
  if (v.mean !== undefined && v.mean !== null && low !== high) words.push(`mean ${significant(real(v.mean))}`);
  if (v.infs) words.push(`${v.infs} Inf`); // of a mask mostly: no alarm
  // What is dead is a line: pictures of all of it would take longer than a step.
  const bars = !faded && v.histogram?.length ? h("svg", { class: "xl-hist", width: v.histogram.length * 4, height: 16, role: "img", "aria-label": "histogram" },
    v.histogram.map((n, i) => { const tall = (16 * n) / Math.max(1, ...v.histogram); return h("rect", { x: i * 4, y: 16 - tall, width: 3, height: tall }); })) : null;
  return h("div", { class: `xl-value${fresh ? " xl-fresh" : ""}${faded ? " xl-faded" : ""}${was ? " xl-changed" : ""}` },
    h("div", { class: "xl-value-head" }, tag ? h("small", { class: "xl-tag" }, tag) : null, h("code", {}, h("b", {}, called), `  ${v.type}`), v.note && v.note !== called ? h("small", {}, v.note) : null, bars,
      h("span", {}, words.join("  ")), v.nans ? h("b", { class: "xl-sign" }, `⚠ ${v.nans} NaN`) : null,
      was ? h("small", { class: "xl-was" }, `≠ was ${span(was) || "another value"}`) : null, tools),
    faded ? null : v.shards?.length ? shardPanels(v, low, high, mesh, devices) : v.heat?.length ? heatGrid(v.heat, low, high) : null,
    entries && fresh && !single ? h("div", { class: "xl-dim" }, `[${entries}${v.type.endsWith("[]") ? "" : ", …"}]`) : null);
}

/** What a breakpoint's text asks of a recorded step; null where the text is no breakpoint. The kernel reads the same texts. */
export function breakTest(text, program) {
  const { eqs, python } = program.data;
  const k = (step) => program.at.get(step.equation);
  const outs = (test) => (step) => step.outputs.some(test);
  const forms = [
    [/^(?:is)?nan$/, () => outs((v) => v.nans)],
    [/^(?:is)?inf$/, () => outs((v) => v.infs)],
    [/^(?:equation|eqn) +(\d{1,9})$/, (m) => (step) => step.equation === +m[1]],
    [/^line +(\d{1,9})$/, (m) => (step) => python.number[eqs.src[k(step)]] === +m[1]],
    [/^(?:var|variable) +([^\s;]+)$/, (m) => outs((v) => v.name === m[1] || v.note === m[1])],
    [/^abs *> *(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)$/, (m) => outs((v) => v.infs || Math.max(Math.abs(real(v.min) ?? 0), Math.abs(real(v.max) ?? 0)) > +m[1])],
    [/^shape +[([]?([\d, ]*)[)\]]?$/, (m) => outs((v) => (/\[([^\]]*)\]/.exec(v.type)?.[1] || "").replace(/@[^,]*/g, "") === (m[1].match(/\d+/g) || []).join(","))],
    [/^(?:primitive +)?([a-z_]\w*)$/, (m) => (step) => eqs.op[k(step)] === m[1]],
  ];
  for (const [form, made] of forms) {
    const found = form.exec(text);
    if (found) return made(found);
  }
  return null;
}

/** @param {HTMLElement} host @param {any} data steps as columns @param {any} model the widget, or null */
export function mountStepper(host, data, model, bin, outer, page) {
  const program = readProgram(data.program, 0);
  const bus = makeBus();
  const ask = asker(model, bin);
  const steps = new Map(data.steps.map((s) => [s.index, s]));
  const before = new Map();
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
  const depth = (i) => (steps.get(i) ?? before.get(i))?.path.length ?? 0;
  const bad = (i) => !steps.get(i)?.writes_nan && steps.get(i)?.outputs.some((v) => v.nans);
  const live = Boolean(ask && data.live);
  const edits = new Map();
  const breaks = [];
  /** The first recorded step that fits; with a kernel a gap ends the search, since the kernel knows what lies there. */
  const seek = (from, by, test) => {
    for (let i = from + by; i >= 0 && i < total; i += by) {
      if (steps.has(i) ? test(i) : live) return steps.has(i) ? i : -1;
    }
    return -1;
  };
  const local = {
    next: () => at + 1,
    back: () => at - 1,
    first: () => 0,
    last: () => total - 1,
    over: () => seek(at, 1, (i) => depth(i) <= depth(at)),
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
        keep(step);
        return go(step.index);
      } catch (error) {
        return say(error.message);
      }
    }
    if (how === "nan") say("no NaN after this step");
    else if (how === "cursor") say(cursor < 0 ? "choose a line of the jaxpr first" : "that equation does not run after this step");
    return undefined;
  }

  /** What the kernel says; a failure is told and gives nothing. */
  async function question(name, values) {
    say("");
    try {
      return await ask(name, values);
    } catch (error) {
      say(error.message);
      return null;
    }
  }
  const wide = h("div", { class: "xl-run-wide" });
  async function ofWholeRun(name, values, draw) {
    const found = await question(name, values);
    if (found) wide.replaceChildren(h("button", { type: "button", class: "xl-right", "aria-label": "close", title: "close", click: () => wide.replaceChildren() }, "×"), draw(found));
  }
  const keep = (step) => steps.set(step.index, { path: [], dead: [], outputs: [], equation: -1, index: 0, ...step });

  async function run() {
    const found = seek(at, 1, (i) => breaks.some((b) => b.test(steps.get(i))));
    if (found < 0 && live && at < total - 1) {
      const step = await question("run", { index: at, breakpoints: breaks.map((b) => b.text).join(";") });
      if (!step) return;
      keep({ index: 0, ...step });
      await go(step.index ?? 0);
    } else if (found >= 0) await go(found);
    else return say(breaks.length ? "no breakpoint is met after this step" : "there are no breakpoints yet");
    for (const b of breaks) if (b.test(steps.get(at))) b.hits += 1;
    const met = breaks.filter((b) => b.test(steps.get(at))).map((b) => b.text);
    say("");
    stopped.textContent = met.length ? `stopped at ${met.join(" and ")}` : "ran to the end: no breakpoint was met";
    drawBreaks();
  }

  function addBreak(text) {
    const short = text.trim();
    const test = breakTest(short, program);
    if (!test) return say(`“${short.slice(0, 60)}” is no breakpoint: write nan, inf, abs > 100, shape 8,4, line 12, equation 5, var h or a primitive such as dot_general`);
    say("");
    if (!breaks.some((b) => b.text === short)) breaks.push({ text: short, test, hits: 0 });
    field.value = "";
    return drawBreaks();
  }

  function drawBreaks() {
    chips.replaceChildren(...breaks.map((b, i) => h("span", { class: "xl-chip" }, h("i", { class: "xl-break-dot" }), b.text, b.hits ? h("small", {}, ` ×${b.hits}`) : null,
      h("button", { type: "button", title: "remove this breakpoint", "aria-label": `remove breakpoint ${b.text}`, click: () => { breaks.splice(i, 1); drawBreaks(); } }, "×"))));
    runButton.disabled = !breaks.length;
    bands.replaceChildren(drawBands());
  }

  async function replace(name, text) {
    const step = await question("replace", { index: at, name, value: text });
    if (!step?.outputs?.length) return;
    for (const [i, s] of [...steps]) if (i > at) { if (!before.has(i)) before.set(i, s); steps.delete(i); }
    for (const i of edits.keys()) if (i > at) edits.delete(i);
    edits.set(at, [...(edits.get(at) || []).filter((v) => v.name !== step.outputs[0].name), step.outputs[0]]);
    undo.hidden = false;
    bands.replaceChildren(drawBands());
    drawValues();
  }

  async function restore() {
    const step = await question("restore", { index: at });
    if (!step) return;
    for (const i of [...steps.keys()]) if (before.has(i)) steps.delete(i);
    for (const [i, s] of before) steps.set(i, s);
    before.clear();
    edits.clear();
    undo.hidden = true;
    bands.replaceChildren(drawBands());
    await go(at);
  }

  /** Buttons of a value that a kernel can give whole or replace. */
  function valueTools(v) {
    if (!live) return null;
    const shown = h("pre", { class: "xl-entries", hidden: true });
    const input = h("input", { type: "search", class: "xl-number", placeholder: "0.5 or [1, 2, …]", "aria-label": `another value for ${v.name}`, keydown: (event) => { if (event.key === "Enter") replace(v.name, input.value); } });
    const form = h("span", { class: "xl-replace", hidden: true }, input, h("button", { type: "button", click: () => replace(v.name, input.value) }, "go on with it"));
    return h("span", { class: "xl-tools" },
      h("button", { type: "button", title: `what if ${v.name} had another value here?`, click: () => { form.hidden = !form.hidden; if (!form.hidden) input.focus(); } }, "what if"),
      h("button", { type: "button", title: "every entry", click: async () => {
        shown.hidden = !shown.hidden;
        if (shown.hidden || shown.textContent) return;
        const whole = await question("whole", { index: at, name: v.name });
        shown.textContent = whole ? (whole.preview || []).map((x) => { const n = real(x); return typeof n === "number" ? significant(n, true) : String(n); }).join(", ") : "";
      } }, "values"),
      h("button", { type: "button", title: `${v.name} over all iterations and devices`, click: () => ofWholeRun("series", { name: v.name }, (found) => seriesNode({ ...found, name: program.shown(v.name) }, go, at)) }, "over the run"), form, shown);
  }

  async function go(i) {
    if (!steps.has(i) && ask) {
      try {
        const step = await ask("move", { how: "goto", index: i, equation: -1 });
        keep(step);
      } catch (error) {
        return say(error.message);
      }
    }
    const step = steps.get(i);
    if (!step) return say(`step ${i + 1} was not recorded`);
    at = i;
    slider.value = String(i);
    stopped.textContent = "";
    place.textContent = `step ${i + 1} / ${total}`;
    inKernel.hidden = step.kernel === undefined || !page?.data.kernels?.[step.kernel];
    where.textContent = step.path.join(" ▸ ");
    bus.select([program.key(step.equation)], slider);
    if (edits.size) bands.replaceChildren(drawBands());
    drawValues();
    return undefined;
  }

  function drawValues() {
    const { mesh } = data.program;
    const k = program.at.get(steps.get(at).equation);
    const op = k === undefined ? "" : data.program.eqs.op[k];
    const operands = k === undefined ? [] : data.program.eqs.ins[k].split(" ");
    const joint = data.joint.includes(steps.get(at).equation);
    const seen = new Map();
    const dead = new Set();
    const here = depth(at);
    const bare = ({ note: _, ...rest }) => JSON.stringify(Object.entries(rest).sort());
    const differs = (i, v) => { const old = before.get(i)?.outputs.find((o) => o.name === v.name); return old && bare(old) !== bare(v) ? old : null; };
    for (const v of data.inputs) seen.set(v.name, { v });
    const { path } = steps.get(at);
    // Of another iteration is what has another path: its variables are not those of this one.
    const around = (s) => s && s.path.length <= here && s.path.every((name, k) => name === path[k]);
    const own = (s) => around(s) && s.path.length === here;
    const made = new Set();
    // What an iteration is given and no step makes: its carry and slices, also those that are read later.
    const give = (s) => {
      for (const v of s.inputs || []) if (!v.name.includes(":") && !made.has(v.name) && !seen.has(v.name)) seen.set(v.name, { v });
    };
    for (let i = Math.max(0, at - 400); i <= at; i += 1) {
      const s = steps.get(i);
      if (!around(s)) continue;
      if (own(s)) give(s);
      for (const name of s.dead) dead.add(name);
      for (const v of s.outputs) {
        seen.delete(v.name);
        seen.set(v.name, { v, fresh: i === at, was: differs(i, v) });
        if (!s.dead.includes(v.name)) dead.delete(v.name);
      }
      for (const v of s.outputs) made.add(v.name);
      for (const v of edits.get(i) || []) seen.set(v.name, { v, fresh: i === at, was: seen.get(v.name)?.v || v });
    }
    for (let i = at + 1; here && i < at + 400 && steps.has(i); i += 1) {
      const s = steps.get(i);
      if (s.path.length < here || !s.path.slice(0, here).every((name, k) => name === path[k])) break;
      if (own(s)) give(s);
      for (const v of s.outputs) made.add(v.name);
    }
    const rank = (x) => (x.fresh ? 0 : operands.includes(x.v.name) ? 1 : 2);
    const list = [...seen.values()].reverse().sort((a, b) => rank(a) - rank(b)).slice(0, 40);
    const tag = (x) => (joint ? ["after", "before", ""][rank(x)] : rank(x) === 1 ? "operand" : "");
    values.replaceChildren(joint ? h("p", { class: "xl-joint" }, `${op}: one step on every device`) : "", ...list.map((x) => {
      const faded = dead.has(x.v.name);
      return valueNode(x.v, { ...x, called: program.shown(x.v.name), faded: faded && rank(x) === 2, tag: tag(x), mesh, devices: data.devices, tools: faded ? null : valueTools(x.v) });
    }));
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
    const diamond = (i, name) => h("path", { class: name, d: "M0 14L4 18L0 22L-4 18Z", transform: `translate(${(1000 * (i + 0.5)) / total} 0)` });
    for (const s of steps.values()) if (breaks.some((b) => b.test(s))) bands.push(diamond(s.index, "xl-break-mark"));
    for (const i of edits.keys()) bands.push(h("rect", { x: (1000 * (i + 1)) / total, width: 1000 - (1000 * (i + 1)) / total, y: 19, height: 3, class: "xl-edited" }));
    return h("svg", { class: "xl-bands", viewBox: "0 0 1000 22", preserveAspectRatio: "none", "aria-hidden": "true" }, bands);
  }

  const button = (word, title, how) => h("button", { type: "button", title, "aria-label": title, click: () => move(how) }, icon(how === "next" ? "play" : how === "over" ? "last" : how), word);
  const bar = h("div", { class: "xl-transport", role: "toolbar", "aria-label": "stepper" },
    button("", "first step", "first"), button("", "one step back (left)", "back"), button("", "one step (right)", "next"), button("", "last step", "last"),
    button("over", "over the nested program", "over"), button("into", "into the nested program (down)", "into"), button("out", "out of the nested program (up)", "out"), button("to cursor", "run to the chosen equation", "cursor"), button("first NaN", "run to the first NaN", "nan"),
    // A saved page has the room of what only a kernel can answer: nothing moves when one does.
    live ? h("button", { type: "button", title: "who made the first NaN: the equations from its cause to the result", click: () => ofWholeRun("blame", {}, (found) => nanPathNode(found, go, program.shown)) }, "who made it") : h("button", { style: "visibility:hidden" }, "who made it"), place, where);
  const field = h("input", { type: "search", class: "xl-break-field", placeholder: "nan · abs > 9 · line 12 · var h · sin", "aria-label": "new breakpoint", keydown: (event) => { if (event.key === "Enter") addBreak(field.value); } });
  const chips = h("span", { class: "xl-chips" });
  const stopped = h("span", { class: "xl-stopped", role: "status" });
  const runButton = h("button", { type: "button", title: "run to the next breakpoint", "aria-label": "run to the next breakpoint", disabled: true, click: run }, icon("play"), "run");
  const undo = h("button", { type: "button", class: "xl-undo", hidden: true, title: "take every replaced value back", click: restore }, "undo what-if");
  const bands = h("div", {}, drawBands());
  const inKernel = h("button", { type: "button", class: "xl-in-kernel", hidden: true, title: "the blocks of this grid step, and what the kernel does in it", click: () => {
    const { kernel, point } = steps.get(at);
    page.open("kernels");
    page.part("kernels")?.show(kernel, point);
  } }, "blocks of this step");
  const stops = h("div", { class: "xl-transport xl-stops", role: "group", "aria-label": "breakpoints" }, runButton, field,
    h("button", { type: "button", title: "stop at the chosen equation", click: () => (cursor >= 0 ? addBreak(`equation ${cursor}`) : say("choose a line of the jaxpr first")) }, "at the chosen line"), chips, undo, stopped);
  bar.append(inKernel);
  const grid = h("div", { class: "xl-columns xl-stepping" }, columns.map((c) => c.el), h("div", { class: "xl-column" }, h("div", { class: "xl-column-title" }, "variables"), values));
  host.replaceChildren(bar, h("div", { class: "xl-scrubber" }, bands, slider), stops, note, wide,
    grid);
  resizable(grid, bin);
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

definePanel("steps", (section, page) => {
  const { data, programs, model, bus, bin } = page;
  if (!data.steps) return null;
  const part = mountStepper(section.querySelector(".xl-steps-static"), data.steps, model, bin, programs.length ? bus : null, page);
  part.start();
  return part;
});
