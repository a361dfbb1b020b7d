import { asker } from "../kit/ask.js";
import { h } from "../kit/dom.js";
import { bytes, micros } from "../kit/format.js";
import { definePanel } from "../kit/panels.js";
import { frontPicture, axesText, placementTable, specText, verdict } from "./placements.js";

/** What if: other specs for the arguments, or another mesh, compiled by the kernel without running and set beside what is. */

const mostArguments = 100;
/** Seconds that a compile for many devices, or a search, may take. */
const compileSeconds = 180;

const sameSpec = (a, b) => JSON.stringify(a) === JSON.stringify(b);

const machines = [["cpu", "this CPU"], ...["v4", "v5e", "v5p", "v6e", "tpu7x"].map((g) => [`tpu:${g}`, `TPU ${g}`])];

/** `data=64, model=8` as axis sizes; null where it is anything else. */
export function readMesh(text) {
  const found = [];
  for (const part of text.split(/[,\s]+/).filter(Boolean)) {
    const match = /^([A-Za-z_]\w*)=(\d{1,5})$/.exec(part);
    if (!match || !+match[2] || found.some(([name]) => name === match[1])) return null;
    found.push([match[1], +match[2]]);
  }
  return found.length ? found : null;
}

/** Ways to lay one dimension over the axes: none, each axis, ordered pairs. */
function choices(names) {
  return [[], ...names.map((n) => [n]), ...(names.length <= 4 ? names.flatMap((a) => names.filter((b) => b !== a).map((b) => [a, b])) : [])];
}

/** @param {HTMLElement} section @param {any[]} programs arguments and mesh of each @param {string[]} reducing kinds of collectives that add up @param {any} model the widget */
export function mountWhatIf(section, programs, reducing, model, bin) {
  const host = section.querySelector(".xl-whatif-static");
  if (!host || !programs?.length || !model?.send) return null;
  const ask = asker(model, bin, compileSeconds);
  let at = 0;
  let specs = [];
  let mesh = [];
  let stopped = true;
  const vary = new Set();           // numbers of groups
  const result = h("div", { class: "xl-whatif-result", "aria-live": "polite" });
  const body = h("tbody", {});
  const note = h("span", { class: "xl-dim" });
  const field = h("input", { type: "search", class: "xl-mesh-field", "aria-label": "mesh", spellcheck: "false", change: () => readField(), keydown: (e) => { if (e.key === "Enter") { readField(); run(); } } });
  let needle = "";
  const cut = h("p", { class: "xl-dim" });
  const find = h("input", { type: "search", placeholder: "find an argument", "aria-label": "find an argument", input: (e) => { needle = e.target.value.trim().toLowerCase(); rows(); } });
  const machine = h("select", { "aria-label": "machine", title: "for which times are predicted" }, machines.map(([value, text]) => h("option", { value }, text)));
  const shapes = h("input", { type: "checkbox", checked: true });
  const program = () => programs[at];
  const groups = () => program().groups || program().args.map((a, i) => [a.name, [i]]);
  const original = () => program().mesh.names.map((n, i) => [n, program().mesh.sizes[i]]);

  function readField() {
    const found = readMesh(field.value);
    if (!found) {
      complain(`“${field.value}” is no mesh: write axis=size pairs, such as data=64, model=8`);
      return false;
    }
    mesh = found;
    const names = mesh.map(([n]) => n);
    specs = specs.map((spec) => spec.map((axes) => axes.filter((a) => names.includes(a))));
    const size = mesh.reduce((a, [, n]) => a * n, 1);
    note.textContent = `${size.toLocaleString("en")} device${size > 1 ? "s" : ""}; they need not be there`;
    rows();
    return true;
  }
  function rows() {
    const names = mesh.map(([n]) => n);
    const all = groups().map((group, i) => [group, i]).filter(([[pattern, members]]) => !needle || [pattern, ...members.map((m) => program().args[m].name)].some((name) => name.toLowerCase().includes(needle)));
    const most = all.slice(0, mostArguments);
    cut.textContent = all.length > most.length ? `the first ${most.length} of ${all.length.toLocaleString("en")}; find others by name` : "";
    find.hidden = groups().length <= 12;
    body.replaceChildren(...most.map(([[pattern, members], i]) => {
      const argument = program().args[members[0]];
      const changed = members.some((m) => !sameSpec(specs[m], program().args[m].spec));
      const mixed = (d) => members.some((m) => specs[m][d].join("+") !== specs[members[0]][d].join("+"));
      const set = (d, value) => { for (const m of members) specs[m][d] = value ? value.split("+") : []; rows(); };
      return h("tr", { class: changed ? "xl-sel" : null },
        h("td", {}, h("input", { type: "checkbox", "aria-label": `vary ${pattern} in a search`, title: "vary in a search", checked: vary.has(i), change: (e) => (e.target.checked ? vary.add(i) : vary.delete(i)) })),
        h("td", {}, h("code", {}, h("b", {}, pattern || `argument ${members[0]}`)), members.length > 1 ? h("small", { title: `${members.length} arguments of repeated layers move together` }, ` ×${members.length}`) : null), h("td", {}, h("code", {}, argument.type)),
        h("td", { class: "xl-dims" }, argument.shape.map((n, d) => h("label", {}, h("small", {}, `${n} `), h("select", { "aria-label": `dimension ${d} of ${pattern}`, change: (e) => set(d, e.target.value) },
          mixed(d) ? h("option", { value: "", selected: true }, "mixed") : null,
          choices(names).map((axes) => h("option", { value: axes.join("+"), selected: !mixed(d) && axes.join("+") === specs[members[0]][d].join("+") }, axes.length ? axes.join("+") : "whole")))))),
        h("td", {}, h("code", { class: changed ? "" : "xl-dim" }, argument.shape.some((_, d) => mixed(d)) ? "mixed" : specText(specs[members[0]]))));
    }));
  }
  function reset() {
    mesh = original();
    specs = program().args.map((a) => a.spec.map((axes) => [...axes]));
    vary.clear();
    groups().forEach(([, members], i) => { if (program().args[members[0]].shape.some((n) => n > 1)) vary.add(i); });
    field.value = mesh.map(([n, s]) => `${n}=${s}`).join(", ");
    readField();
    result.replaceChildren(h("p", { class: "xl-dim" }, "Change a spec or the mesh: the program is compiled for it, and nothing runs."));
  }
  function complain(words) {
    result.replaceChildren(h("p", { class: "xl-error" }, `✕ ${words}`));
  }
  function placement() {
    const changed = {};
    specs.forEach((spec, i) => { if (!sameSpec(spec, program().args[i].spec)) changed[i] = spec; });
    const given = { specs: changed };
    if (JSON.stringify(mesh) !== JSON.stringify(original())) given.mesh = mesh;
    if (machine.value && machine.value !== "cpu") given.machine = machine.value;
    return given;
  }
  const busy = (on) => { for (const b of [compile, search, back]) b.disabled = on; };
  async function put(name, given, waiting, drawn) {
    result.replaceChildren(h("p", { class: "xl-dim" }, waiting));
    busy(true);
    try {
      result.replaceChildren(drawn(await ask(name, { program: program().program, placement: JSON.stringify(given) })));
    } catch (error) {
      complain(error.message);
    }
    busy(false);
  }
  /** A search goes on in turns of about a second, so that it shows what it has and can be stopped. */
  async function hunt() {
    const chosen = groups().filter((_, i) => vary.has(i)).flatMap(([, members]) => members).sort((a, b) => a - b);
    const given = { ...placement(), specs: {}, vary: chosen };
    if (shapes.checked === false) given.shapes = false;
    const asked = at;
    const number = program().program;
    stopped = false;
    busy(true);
    stop.hidden = false;
    stop.textContent = "stop";
    result.replaceChildren(h("p", { class: "xl-dim" }, "compiling what is …"));
    try {
      for (let on = false, found = { done: false }; found.done === false && !stopped && asked === at; on = true) {
        found = await ask("search", { program: number, placement: JSON.stringify(on ? { ...given, on } : given) });
        if (asked === at) result.replaceChildren(ranked(found, found.done === false && !stopped));
      }
    } catch (error) {
      if (asked === at) complain(error.message);
    }
    stop.hidden = true;
    stopped = true;
    busy(false);
  }
  const run = () => readField() && put("what_if", placement(), "compiling …", weighed);
  const compile = h("button", { type: "button", class: "xl-primary", click: run }, "compile and compare");
  const search = h("button", { type: "button", title: "estimates placements of the checked arguments without compiling, ranks them by time and memory, and compiles the best", click: () => readField() && (vary.size ? hunt() : complain("check the arguments whose placement may vary")) }, "search the best");
  const stop = h("button", { type: "button", hidden: true, title: "keeps the best so far", click: () => { stopped = true; stop.textContent = "stopping …"; } }, "stop");
  const back = h("button", { type: "button", click: reset }, "back to what is");

  /** Python that puts the arguments as the controls have them. */
  function code() {
    const lines = groups().flatMap(([pattern, members]) => {
      const alike = members.every((m) => sameSpec(specs[m], specs[members[0]])) && !/ \(\+\d+\)$/.test(pattern);
      return (alike ? [[pattern, specs[members[0]]]] : members.map((m) => [program().args[m].name, specs[m]])).filter(([, spec]) => spec.some((axes) => axes.length));
    }).map(([pattern, spec]) => `    ${JSON.stringify(pattern)}: ${specText(spec)},`);
    const tuple = (list) => `(${list.join(", ")}${list.length === 1 ? "," : ""})`;
    return ["import xlab", "from xlab import observe", "from xlab.sharding import AxisType, PartitionSpec as P", "",
      `mesh = xlab.make_mesh(${tuple(mesh.map(([, n]) => n))}, ${tuple(mesh.map(([n]) => `'${n}'`))}, axis_types=(AxisType.${program().kind || "Auto"},) * ${mesh.length})`,
      "specs = {", ...lines, "}", `${program().put}    # what is not named is whole on every device`].join("\n");
  }
  const pasted = (text) => h("details", { class: "xl-pasted", open: true }, h("summary", {}, "the code for it"), h("pre", { class: "xl-code" }, text));

  /** Two placements: numbers with bars, collectives of both. */
  function weighed(found) {
    const sides = [found.before, found.after];
    const real = sides.map((p) => (p.transfers || []).filter((t) => t.instruction));
    const count = (list) => list.filter((t) => t.origin === "partitioner" && !reducing.includes(t.kind)).length;
    const plain = (n) => n.toLocaleString("en");
    const timed = sides.every((p) => p.step_us);
    const ran = sides.every((p) => p.measured_us);
    const lines = [...(timed ? [["step", micros, sides.map((p) => p.step_us)]] : []), ...(ran ? [["measured", micros, sides.map((p) => p.measured_us)]] : []), ["collectives", plain, real.map((list) => list.length)], ["from disagreement", plain, real.map(count)], ["sent per device", bytes, sides.map((p) => p.sent || 0)],
      ["predicted, sending", micros, sides.map((p) => p.predicted_us || 0)], ["peak per device", bytes, sides.map((p) => p.peak || 0)]];
    const table = h("table", { class: "xl-table xl-weighed" }, h("thead", {}, h("tr", {}, ["", "now", "", "what if", "", ""].map((t, i) => h("th", { class: i === 1 || i === 3 ? "n" : null }, t)))),
      h("tbody", {}, lines.map(([what, say, [a, b]]) => {
        const most = Math.max(a, b) || 1;
        const word = a === b ? "same" : b < a ? "less" : "more";
        return h("tr", { class: `xl-is-${word}` }, h("td", {}, what), h("td", { class: "n" }, a ? say(a) : "0"), h("td", {}, share(a / most)), h("td", { class: "n" }, b ? say(b) : "0"), h("td", {}, share(b / most)), h("td", { class: "xl-verdict" }, { same: "=", less: "▼ less", more: "▲ more" }[word]));
      })));
    return h("div", {}, table, sides[1] === found.after && found.coded !== false ? pasted(found.code || code()) : null, h("div", { class: "xl-pair" }, sides.map((p, i) => h("figure", { class: "xl-weighed-side" },
      h("figcaption", {}, `${p.title.startsWith("now") ? "now" : p.title} · mesh ${axesText(p.mesh)}`),
      real[i].length ? h("ul", {}, real[i].slice(0, 40).map((t) => h("li", {}, collectiveLine(t)))) : h("p", {}, "no collectives"), real[i].length > 40 ? h("p", { class: "xl-dim" }, `and ${real[i].length - 40} more`) : null))));
  }
  const share = (part) => h("span", { class: "xl-share" }, h("span", { style: `width:${(100 * part).toFixed(1)}%` }));
  function collectiveLine(t) {
    const over = t.axes?.length ? t.axes.join() : t.groups?.length ? `${t.groups.length} groups of ${t.groups[0].length}` : "pairs";
    const often = t.times === 1 ? "" : ` × ${t.times ?? "?"}`;
    const who = !t.origin ? `you${t.call ? ` (${t.call})` : ""}` : reducing.includes(t.kind) ? "partitioner" : "partitioner ⚠";
    return `${t.kind}${t.reduction ? ` ${t.reduction}` : ""} over ${over}, ${bytes(t.bytes_in || 0)} → ${bytes(t.bytes_out || 0)}${often}, ${who}${t.source ? `, line ${t.source.line}` : ""}`;
  }
  /** Puts a placement of a search into the controls. */
  function use(p) {
    const wanted = new Map(p.specs || []);
    groups().forEach(([pattern, members]) => members.forEach((m) => {
      const spec = wanted.get(program().args[m].name) || wanted.get(pattern);
      if (spec) specs[m] = spec.map((axes) => [...axes]);
    }));
    mesh = p.mesh.axis_names.map((n, k) => [n, p.mesh.axis_sizes[k]]);
    field.value = mesh.map(([n, s]) => `${n}=${s}`).join(", ");
    readField();
  }
  const prove = (p) => { use(p); run(); };
  /** What a search has found so far, or in all. */
  function ranked(found, going) {
    const tried = (found.tried || 0).toLocaleString("en");
    const head = h("p", { class: "xl-found" }, h("b", {}, verdict(found)), ` · ${tried} placement${found.tried === 1 ? "" : "s"} tried`, going ? h("span", { class: "xl-dim" }, ` · ${found.phase || ""} …`) : found.done === false ? " · stopped" : null);
    const best = (found.found || [])[found.best ?? -1];
    return h("div", {}, head, best && !going ? pasted(found.code || "") : null, frontPicture(found, use), placementTable(found, prove, use),
      h("p", { class: "xl-dim" }, `Ranked by the predicted time of a step and the memory of a device. Estimates take no compiling; ${best?.estimated && !going ? "the best so far is one, and “prove” compiles it" : "what is called better was compiled"}.`),
      found.proven && !going ? weighed({ ...found.proven, coded: false }) : null);
  }

  const which = programs.length > 1 ? h("select", { "aria-label": "program", change: (e) => { at = +e.target.value; reset(); } }, programs.map((p, i) => h("option", { value: i }, p.name))) : null;
  host.replaceChildren(h("div", { class: "xl-bar-top xl-whatif-bar" }, which, h("label", {}, "mesh ", field), note, h("label", {}, "on ", machine), h("label", { title: "search other shapes of the mesh with as many devices" }, shapes, " other shapes too"), find),
    h("div", { class: "xl-scroll" }, h("table", { class: "xl-table xl-whatif-arguments" }, h("thead", {}, h("tr", {}, ["vary", "argument", "now", "dimensions over", "spec"].map((t) => h("th", {}, t)))), body)), cut,
    h("div", { class: "xl-bar-top" }, compile, search, stop, back), result);
  reset();
  return {
    /** Put one suggestion into the controls and compile it. */
    attempt(wanted) {
      at = Math.max(0, programs.findIndex((p) => p.program === wanted.program));
      if (which) which.value = String(at);
      reset();
      specs[wanted.argument] = wanted.spec.map((axes) => [...axes]);
      rows();
      run();
    },
  };
}

definePanel("whatif", (section, { data, model, bin }) => mountWhatIf(section, data.whatif, data.flow.reducing, model, bin));
