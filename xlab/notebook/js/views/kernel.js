import { asker } from "../kit/ask.js";
import { h, icon, listen } from "../kit/dom.js";
import { definePanel } from "../kit/panels.js";
import { makeRows } from "../kit/rows.js";
import { accessText, known, lastAtMost, mountLanes, sliceText } from "./lanes.js";
import { blockFigure, bufferNode } from "./blocks.js";

/** The kernel view: a run of a kernel scrubbed step by step, or access by access; its data is the record's own JSON. */

const faultWords = { bounds: "out of bounds", uninitialized: "uninitialized", nan: "NaN", race: "race", deadlock: "deadlock", error: "error" };

const texts = new Set(["operand", "io", "ref", "kind", "eqn", "of"]);

/** The events of a record: as they are, or from the columns of a page. */
function eventsOf(run) {
  if (!run.columns) return run.events || [];
  const { words, visits, accesses } = run.columns;
  const rows = (columns, record) => {
    const names = Object.keys(columns);
    return (columns[names[0]] || []).map((_, i) => {
      const e = { record };
      for (const name of names) e[name] = texts.has(name) ? words[columns[name][i]] : columns[name][i];
      if (e.slice) e.slice = Array.from({ length: e.slice.length / 2 }, (_, d) => [e.slice[2 * d], e.slice[2 * d + 1]]);
      return e;
    });
  };
  return [...rows(visits, "BlockVisit"), ...rows(accesses, "RefAccess")];
}

/** What is worked out once from a record: events in order, blocks by number, accesses of each step, changes of each buffer. */
export function readKernel(run) {
  const list = (name) => run[name] || [];
  const operands = list("operands");
  const place = new Map(operands.map((o, i) => [o.name, i]));
  const visits = [];
  const accesses = [];
  for (const e of eventsOf(run)) {
    if (e.record === "RefAccess") accesses.push(e);
    else if (place.has(e.operand)) visits.push(e);
  }
  const step = (e) => e.step ?? -1;
  visits.sort((a, b) => step(a) - step(b));
  accesses.sort((a, b) => a.t - b.t);
  const steps = [];
  const blocks = operands.map(() => ({ number: new Map(), at: [], seen: [], list: [] }));
  for (const e of visits) {
    if (!steps.length || step(steps[steps.length - 1][0]) !== step(e)) steps.push([]);
    steps[steps.length - 1].push(e);
    const of = blocks[place.get(e.operand)];
    const key = `${e.start};${e.shape}`;
    if (!of.number.has(key)) {
      of.number.set(key, of.list.length);
      of.list.push(e);
    }
    of.at.push(steps.length - 1);
    of.seen.push(of.number.get(key));
  }
  const numbers = steps.map((s) => step(s[0]));
  const within = steps.map(() => []);
  const stepOf = new Map(numbers.map((n, i) => [n, i]));
  for (const e of accesses) if (stepOf.has(step(e))) within[stepOf.get(step(e))].push(e);
  // When a step is over: the last of its accesses, or what a block says itself.
  let over = -1;
  const ends = steps.map((s, i) => (over = Math.max(over, within[i].length ? within[i][within[i].length - 1].t : over, ...s.map((e) => e.t ?? -1))));
  const changes = list("buffers").map(() => ({ t: [], cells: [] }));
  for (const c of list("changes")) {
    changes[c.buffer ?? 0]?.t.push(c.t);
    changes[c.buffer ?? 0]?.cells.push(c.cells || []);
  }
  return {
    run, operands, place, visits, accesses, steps, numbers, within, ends, blocks, changes,
    times: [...new Set(accesses.map((e) => e.t))],
    pairs: list("pairs"),
    grid: list("grid"),
    several: run.kind === "mpmd_map" || list("pairs").reduce((n, p) => n + (p.cores ?? [0]).length, 0) > 1,
    equation: new Map(list("equations").map((e) => [`${e.pair ?? 0}/${e.path}`, e])),
    /** Cells of a buffer after time t. */
    cells(b, t) {
      const i = lastAtMost(changes[b].t, t);
      return { cells: i < 0 ? list("buffers")[b].cells || [] : changes[b].cells[i], fresh: i >= 0 && changes[b].t[i] === t };
    },
    /** How often each block of an operand has been seen up to step `i`. */
    counts(o, i) {
      const of = blocks[o];
      const found = new Uint32Array(of.list.length);
      for (let k = 0; k < of.at.length && of.at[k] <= i; k += 1) found[of.seen[k]] += 1;
      return found;
    },
  };
}

/** @param {HTMLElement} host @param {any} given the record @param {any} model the widget, or null */
export function mountKernel(host, given, model, bin, say = () => {}) {
  const ask = asker(model, bin, 60);
  let kernel = readKernel(given);
  const stepsFirst = () => kernel.steps.length > 0 && (!kernel.several || !kernel.times.length);
  let byStep = stepsFirst();
  let at = 0;
  let heat = true;
  let playing = 0;
  let moment = new Map();
  const length = () => Math.max(1, byStep ? kernel.steps.length : kernel.times.length);
  const now = () => (byStep ? kernel.ends[at] ?? -1 : kernel.times[at] ?? -1);

  const place = h("output", { class: "xl-place" });
  const where = h("span", { class: "xl-path" });
  const note = h("p", { class: "xl-error", hidden: true });
  const status = h("span", { class: "xl-stopped", role: "status" });
  const slider = h("input", { type: "range", class: "xl-scrub", min: 0, max: length() - 1, value: 0, "aria-label": "step of the kernel", input: () => go(+slider.value) });
  const marks = h("div", {});
  const jumps = h("span", { class: "xl-kernel-jumps", role: "group", "aria-label": "run to" });
  const operands = h("div", { class: "xl-kernel-operands" });
  const buffers = h("div", { class: "xl-kernel-buffers" });
  const listed = h("div", { class: "xl-kernel-accesses" });
  const lanes = h("div", { class: "xl-kernel-lanes" });
  const complain = (text) => {
    note.hidden = !text;
    note.textContent = text;
  };
  const rows = makeRows({
    label: "accesses",
    bin,
    paint: (i) => {
      const e = shown[i];
      const eqn = kernel.equation.get(`${e.pair ?? 0}/${e.eqn}`);
      return h("div", { class: `xl-row xl-kernel-access${e.t === now() ? " xl-sel" : ""}`, role: "option", "data-t": e.t, title: [eqn?.text, eqn?.source ? `${eqn.source.file}:${eqn.source.line}` : ""].filter(Boolean).join("\n") },
        h("span", { class: "n xl-dim" }, `t=${e.t}`), kernel.several ? h("span", { class: "xl-dim" }, `core ${e.core ?? 0}`) : null, h("i", { class: `xl-key xl-k-${known(e.kind)}` }), h("span", {}, accessText(e)), eqn?.source ? h("small", {}, `line ${eqn.source.line}`) : null);
    },
  });
  let shown = [];
  let lane = null;

  /** Accesses shown beside the picture: of this grid step, or near this time. */
  function drawList() {
    if (byStep) shown = kernel.within[at] || [];
    else {
      const i = lastAtMost(kernel.accesses.map((e) => e.t), now());
      shown = kernel.accesses.slice(Math.max(0, i - 60), i + 60);
    }
    listed.hidden = !shown.length;
    if (!shown.length) return;
    rows.show(shown.length);
    if (!byStep) rows.reveal(shown.findIndex((e) => e.t === now()));
  }

  function drawOperands() {
    const touched = byStep ? [] : kernel.accesses.slice(...sameTime(now()));
    const i = byStep ? at : kernel.numbers.indexOf(touched[0]?.step ?? -1);
    const inStep = kernel.steps[i] || [];
    // Where a step has no blocks of an operand, the slices that it touches are lit.
    operands.replaceChildren(...kernel.operands.map((o, n) => blockFigure(o, {
      blocks: kernel.blocks[n].list,
      counts: heat ? kernel.counts(n, i < 0 ? kernel.steps.length - 1 : i) : null,
      now: inStep.filter((e) => e.operand === o.name),
      touched: touched.filter((e) => e.ref === o.name && e.slice?.length === o.shape.length),
      parts: byStep && inStep.every((e) => e.operand !== o.name) ? (kernel.within[at] || []).filter((e) => e.ref === o.name && e.slice?.length === o.shape.length) : [],
    })).filter(Boolean));
  }
  const sameTime = (t) => {
    const times = kernel.accesses;
    let from = 0;
    let high = times.length;
    while (from < high) {
      const mid = (from + high) >> 1;
      if (times[mid].t < t) from = mid + 1;
      else high = mid;
    }
    let to = from;
    while (to < times.length && times[to].t === t) to += 1;
    return [from, to];
  };

  function drawBuffers() {
    const all = kernel.run.buffers || [];
    const owners = new Map();
    all.forEach((b, i) => {
      if (!owners.has(b.owner)) owners.set(b.owner, []);
      const { cells, fresh } = moment.get(i) ? { cells: moment.get(i), fresh: false } : kernel.cells(i, now());
      owners.get(b.owner).push(bufferNode(b, cells, fresh));
    });
    buffers.replaceChildren(...[...owners].map(([owner, nodes]) => h("section", { class: "xl-kernel-owner", "aria-label": `memory of ${owner}` }, h("h3", {}, owner), nodes)));
  }

  function drawPlace() {
    const run = kernel.run;
    if (byStep) {
      const first = kernel.steps[at]?.[0];
      const names = run.grid_names || [];
      place.textContent = first ? `step ${(kernel.numbers[at] ?? 0) + 1} / ${Math.max(run.steps ?? 0, kernel.steps.length)}` : "no step";
      where.textContent = first ? `(${(first.grid || []).map((n, i) => (names[i] ? `${names[i]}=${n}` : n)).join(", ")})${kernel.several ? `  core ${first.core ?? 0}` : ""}` : "";
    } else {
      const [from, to] = sameTime(now());
      place.textContent = kernel.times.length ? `t = ${now()} of ${run.time || now()}` : "nothing was recorded";
      where.textContent = kernel.accesses.slice(from, to).map((e) => `core ${e.core ?? 0} ${accessText(e)}`).join("; ");
    }
  }

  async function drawWhole() {
    moment = new Map();
    if (!ask || !given.live || !(kernel.run.left_out || []).some((w) => w.includes("contents"))) return;
    const wanted = now();
    try {
      const found = await ask("contents", { t: wanted });
      if (now() !== wanted) return;
      for (const b of found.buffers || []) {
        const i = (kernel.run.buffers || []).findIndex((x) => x.name === b.name && x.owner === b.owner);
        if (i >= 0) moment.set(i, b.cells || []);
      }
      drawBuffers();
    } catch (error) {
      complain(error.message);
    }
  }

  function go(i) {
    complain("");
    at = Math.max(0, Math.min(length() - 1, i));
    slider.value = String(at);
    status.textContent = "";
    moment = new Map();
    drawPlace();
    drawOperands();
    drawBuffers();
    drawList();
    lane?.show(now(), byStep ? null : sameTime(now()));
    drawWhole();
    say(`${place.textContent} ${where.textContent}`);
  }

  /** The place to show time `t`, in steps or accesses. */
  function goTime(t) {
    if (byStep) {
      const i = kernel.ends.findIndex((end) => end >= t);
      return go(i < 0 ? length() - 1 : i);
    }
    return go(Math.max(0, lastAtMost(kernel.times, t)));
  }

  function faultsOf(kind) {
    const found = (kernel.run.faults || []).filter((f) => f.kind === kind).map((f) => ({ t: f.t ?? -1, step: f.step ?? -1, text: f.text }));
    if (kind === "race") for (const r of kernel.run.races || []) found.push({ t: Math.max(...(r.times || [-1])), step: -1, text: raceText(r) });
    return found;
  }
  function jump(kind) {
    const found = faultsOf(kind);
    if (!found.length) return complain(`no ${faultWords[kind]} in this run`);
    const place = (f) => (byStep && f.step >= 0 ? kernel.numbers.indexOf(f.step) : byStep ? kernel.ends.findIndex((end) => end >= f.t) : lastAtMost(kernel.times, f.t));
    const next = found.find((f) => place(f) > at) || found[0];
    go(Math.max(0, place(next)));
    status.textContent = next.text;
    return undefined;
  }

  function drawJumps() {
    jumps.hidden = !kernel.accesses.length && !(kernel.run.faults || []).length;
    jumps.replaceChildren(...["bounds", "uninitialized", "nan", "race", "deadlock"].filter((kind) => kind !== "deadlock" || faultsOf(kind).length).map((kind) => {
      const n = faultsOf(kind).length;
      return h("button", { type: "button", disabled: !n, title: n ? `run to the first ${faultWords[kind]}` : `no ${faultWords[kind]} in this run`, "aria-label": `run to the first ${faultWords[kind]}`, click: () => jump(kind) }, icon("nan"), n > 1 ? `${faultWords[kind]} ×${n}` : faultWords[kind]);
    }));
  }

  /** Marks above the slider: where something goes wrong, and where the outer axes of the grid move on. */
  function drawMarks() {
    const parts = [];
    const x = (i) => ((1000 * (i + 0.5)) / length()).toFixed(1);
    if (byStep) {
      const inner = kernel.grid.slice(1).reduce((a, b) => a * b, 1);
      for (let i = 0; i * inner < length() && i < 400; i += 1) if (i % 2) parts.push(h("rect", { x: (1000 * i * inner) / length(), width: (1000 * inner) / length(), y: 6, height: 12, class: "xl-band-deep" }));
    }
    for (const kind in faultWords) {
      for (const f of faultsOf(kind).slice(0, 50)) {
        const i = byStep ? (f.step >= 0 ? kernel.numbers.indexOf(f.step) : kernel.ends.findIndex((end) => end >= f.t)) : lastAtMost(kernel.times, f.t);
        if (i >= 0) parts.push(h("path", { class: "xl-nan-mark", d: "M-4 0L4 0L0 6Z", transform: `translate(${x(i)} 0)` }));
      }
    }
    marks.replaceChildren(h("svg", { class: "xl-bands", viewBox: "0 0 1000 22", preserveAspectRatio: "none", "aria-hidden": "true" }, parts));
  }

  /** Another run takes the place of this one: the same kernel under another schedule. */
  function use(run) {
    stop();
    kernel = readKernel({ ...given, columns: null, ...run, operands: run.operands?.length ? run.operands : given.operands, equations: run.equations?.length ? run.equations : given.equations });
    byStep = stepsFirst();
    unit.value = byStep ? "steps" : "accesses";
    slider.max = length() - 1;
    drawJumps();
    drawMarks();
    races.replaceChildren(...raceNodes());
    lane = mountLanes(lanes, kernel, (t) => goTime(t), bin);
    go(0);
  }

  function raceText(r) {
    const side = (i) => `core ${r.cores[i]} ${r.kinds[i] === "read" ? "reads" : r.kinds[i] === "accum" ? "adds to" : "writes"} ${sliceText(r.ref, r.slices[i])}`;
    return `${side(0)} and ${side(1)}, in no order`;
  }
  const raceNodes = () => (kernel.run.races || []).slice(0, 20).map((r) => h("p", { class: "xl-error" }, h("b", {}, "✕ race "), h("span", { role: "button", tabindex: "0", class: "xl-kernel-pick", click: () => (byStep && kernel.several ? toggle(false) : 0, goTime(Math.max(...(r.times || [0])))) }, raceText(r)),
    r.shortest?.length ? h("span", { class: "xl-dim" }, `  shortest schedule that shows it: ${scheduleText(r.shortest)}`) : null));
  const scheduleText = (cores) => {
    const parts = [];
    for (const c of cores) {
      if (parts.length && parts[parts.length - 1][0] === c) parts[parts.length - 1][1] += 1;
      else parts.push([c, 1]);
    }
    return `${parts.slice(0, 24).map(([c, n]) => (n > 1 ? `${c}×${n}` : c)).join(" ")}${parts.length > 24 ? " …" : ""} (${cores.length} equations)`;
  };

  const seed = h("input", { type: "number", class: "xl-kernel-seed", min: 0, value: 0, "aria-label": "seed of the schedule" });
  const others = given.others || [];
  const choice = h("select", { "aria-label": "schedule", change: () => (choice.value === "-1" ? use(given) : others[+choice.value] && use(others[+choice.value])) },
    [h("option", { value: "-1" }, given.scheduled_by || "as run"), ...others.map((o, i) => h("option", { value: i }, o.scheduled_by || `schedule ${i + 2}`))]);
  async function reschedule(how) {
    complain("");
    try {
      const run = await ask("schedule", { how, seed: Math.max(0, Math.floor(+seed.value) || 0) });
      others.push(run);
      choice.append(h("option", { value: others.length - 1 }, run.scheduled_by || how));
      choice.value = String(others.length - 1);
      use(run);
    } catch (error) {
      complain(error.message);
    }
  }
  const live = Boolean(ask && given.live);
  const schedules = kernel.several || others.length ? h("div", { class: "xl-transport", role: "group", "aria-label": "schedule" }, h("span", { class: "xl-dim" }, "schedule"), choice,
    live ? [seed, h("button", { type: "button", title: "another schedule, drawn from this seed", click: () => reschedule("random") }, "by seed"),
      h("button", { type: "button", title: "each core one equation in turn", click: () => reschedule("round_robin") }, "round robin"),
      h("button", { type: "button", title: "the shortest schedule that makes the first race's two accesses one after the other", disabled: !(given.races || []).length, click: () => reschedule("shortest") }, "shortest with the race")]
      : h("small", {}, others.length ? "saved page: the schedules that were recorded" : "saved page: no other schedule was recorded")) : null;

  const stop = () => {
    clearInterval(playing);
    playing = 0;
    play.replaceChildren("play");
  };
  const button = (sign, title, run) => h("button", { type: "button", title, "aria-label": title, click: () => (stop(), run()) }, icon(sign));
  const play = h("button", { type: "button", title: "play", "aria-label": "play", click: () => {
    if (playing) return stop();
    play.replaceChildren("stop");
    playing = setInterval(() => (at >= length() - 1 ? stop() : go(at + 1)), 400);
    return undefined;
  } }, "play");
  bin.push(stop);
  function toggle(want) {
    const t = now();
    if (want === byStep || (want ? !kernel.steps.length : !kernel.times.length)) return;
    byStep = want;
    unit.value = byStep ? "steps" : "accesses";
    slider.max = length() - 1;
    drawMarks();
    goTime(t);
  }
  const unit = h("select", { "aria-label": "unit of a step", change: () => toggle(unit.value === "steps") }, h("option", { value: "steps" }, "grid steps"), h("option", { value: "accesses" }, "accesses"));
  unit.value = byStep ? "steps" : "accesses";
  const shade = h("button", { type: "button", class: "xl-kernel-shade", "aria-pressed": "true", title: "how often each block was visited so far", click: () => {
    heat = !heat;
    shade.setAttribute("aria-pressed", String(heat));
    drawOperands();
  } }, "visits");
  const races = h("div", {}, raceNodes());
  const kind = (k, word) => h("span", { class: "xl-legend-item" }, h("i", { class: `xl-key xl-k-${k}` }), word);

  host.replaceChildren(h("div", { class: "xl-transport", role: "toolbar", "aria-label": "kernel" },
    button("first", "first step", () => go(0)), button("back", "one step back (left)", () => go(at - 1)), button("play", "one step (right)", () => go(at + 1)), button("last", "last step", () => go(length() - 1)), play,
    kernel.steps.length && kernel.times.length && !kernel.several ? unit : null, kernel.steps.length ? shade : null, jumps, place, where),
  h("div", { class: "xl-scrubber" }, marks, slider), ...[schedules].filter(Boolean), note, status, races,
  h("div", { class: "xl-legend" }, kind("read", "read"), kind("write", "written"), kind("both", "both"), h("span", { class: "xl-legend-item" }, h("i", { class: "xl-key xl-hatch-css" }), "padding"), h("span", { class: "xl-legend-item" }, h("i", { class: "xl-key xl-k-clamped" }), "clamped"), kernel.run.buffers?.length ? h("span", { class: "xl-legend-item" }, h("i", { class: "xl-key xl-k-uninitialized" }), "uninitialized") : null, kernel.several ? [kind("signal", "signal"), kind("wait", "wait"), kind("copy", "copy")] : null),
  operands, lanes, h("div", { class: "xl-kernel-beside" }, buffers, listed));
  listed.append(h("h3", {}, "accesses"), rows.el);
  listen(bin, rows.el, "click", (event) => {
    const row = event.target.closest(".xl-row");
    if (!row) return;
    if (byStep) toggle(false);
    goTime(+row.dataset.t);
  });
  drawJumps();
  drawMarks();
  lane = mountLanes(lanes, kernel, (t) => goTime(t), bin);
  const turn = { ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), ArrowDown: () => toggle(false), ArrowUp: () => toggle(true) };
  return {
    start: () => go(0),
    goStep(number) {
      toggle(true);
      go(Math.max(0, kernel.numbers.indexOf(number)));
    },
    key(name) {
      if (!turn[name]) return false;
      stop();
      turn[name]();
      return true;
    },
  };
}

definePanel("kernels", (section, { data, model, bin, say, failing }) => {
  const hosts = [...section.querySelectorAll(".xl-kernel-run")];
  const parts = hosts.map((host, i) => {
    const run = data.kernels?.[i];
    const stage = host.querySelector(".xl-kernel-static");
    if (!run || !stage) return null;
    return failing(host, () => {
      const part = mountKernel(stage, run, model, bin, say);
      part.start();
      return part;
    });
  });
  const focused = () => Math.max(0, hosts.findIndex((host) => host.contains(document.activeElement)));
  return {
    key: (name) => Boolean(parts[focused()]?.key(name)),
    /** Shows a grid step of one of the kernels. */
    show(i, point) {
      parts[i]?.goStep(point);
      hosts[i]?.scrollIntoView?.({ block: "nearest" });
    },
  };
});
