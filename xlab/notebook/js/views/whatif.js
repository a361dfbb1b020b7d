import { asker } from "../kit/ask.js";
import { h } from "../kit/dom.js";
import { bytes, micros } from "../kit/format.js";
import { definePanel } from "../kit/panels.js";

/** What if: other specs for the arguments, or another mesh, compiled by the kernel without running and set beside what is. */

const mostArguments = 100;
/** Seconds that a compile for many devices, or a search, may take. */
const compileSeconds = 180;

const specText = (spec) => `P(${spec.map((axes) => (!axes.length ? "None" : axes.length === 1 ? `'${axes[0]}'` : `(${axes.map((a) => `'${a}'`).join(", ")})`)).join(", ")})`;
const sameSpec = (a, b) => JSON.stringify(a) === JSON.stringify(b);

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
  const vary = new Set();
  const result = h("div", { class: "xl-whatif-result", "aria-live": "polite" });
  const body = h("tbody", {});
  const note = h("span", { class: "xl-dim" });
  const field = h("input", { type: "search", class: "xl-mesh-field", "aria-label": "mesh", spellcheck: "false", change: () => readField(), keydown: (e) => { if (e.key === "Enter") { readField(); run(); } } });
  let needle = "";
  const cut = h("p", { class: "xl-dim" });
  const find = h("input", { type: "search", placeholder: "find an argument", "aria-label": "find an argument", input: (e) => { needle = e.target.value.trim().toLowerCase(); rows(); } });
  const program = () => programs[at];
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
    const all = program().args.map((argument, i) => [argument, i]).filter(([a]) => !needle || `${a.name} ${a.type}`.toLowerCase().includes(needle));
    const most = all.slice(0, mostArguments);
    cut.textContent = all.length > most.length ? `the first ${most.length} of ${all.length.toLocaleString("en")}; find others by name` : "";
    find.hidden = program().args.length <= 12;
    body.replaceChildren(...most.map(([argument, i]) => {
      const changed = !sameSpec(specs[i], argument.spec);
      return h("tr", { class: changed ? "xl-sel" : null },
        h("td", {}, h("input", { type: "checkbox", "aria-label": `vary ${argument.name} in a search`, title: "vary in a search", checked: vary.has(i), change: (e) => (e.target.checked ? vary.add(i) : vary.delete(i)) })),
        h("td", {}, h("code", {}, h("b", {}, argument.name || `argument ${i}`))), h("td", {}, h("code", {}, argument.type)),
        h("td", { class: "xl-dims" }, argument.shape.map((n, d) => h("label", {}, h("small", {}, `${n} `), h("select", { "aria-label": `dimension ${d} of ${argument.name}`, change: (e) => { specs[i][d] = e.target.value ? e.target.value.split("+") : []; rows(); } },
          choices(names).map((axes) => h("option", { value: axes.join("+"), selected: axes.join("+") === specs[i][d].join("+") }, axes.length ? axes.join("+") : "whole")))))),
        h("td", {}, h("code", { class: changed ? "" : "xl-dim" }, specText(specs[i]))));
    }));
  }
  function reset() {
    mesh = original();
    specs = program().args.map((a) => a.spec.map((axes) => [...axes]));
    vary.clear();
    program().args.forEach((a, i) => { if (a.shape.length && vary.size < 2) vary.add(i); });
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
    return given;
  }
  const busy = (on) => { for (const b of [compile, search]) b.disabled = on; };
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
  const run = () => readField() && put("what_if", placement(), "compiling …", weighed);
  const compile = h("button", { type: "button", class: "xl-primary", click: run }, "compile and compare");
  const search = h("button", { type: "button", title: "tries the placements of the checked arguments and ranks them", click: () => readField() && (vary.size ? put("search", { ...placement(), vary: [...vary].sort((a, b) => a - b) }, `compiling placements of ${vary.size} argument${vary.size > 1 ? "s" : ""}, up to 20 s …`, ranked) : complain("check the arguments whose placement may vary")) }, "search the best");
  const back = h("button", { type: "button", click: reset }, "back to what is");

  /** Two placements: numbers with bars, collectives of both. */
  function weighed(found) {
    const sides = [found.before, found.after];
    const real = sides.map((p) => (p.transfers || []).filter((t) => t.instruction));
    const count = (list) => list.filter((t) => t.origin === "partitioner" && !reducing.includes(t.kind)).length;
    const plain = (n) => n.toLocaleString("en");
    const lines = [["collectives", plain, real.map((list) => list.length)], ["from disagreement", plain, real.map(count)], ["sent per device", bytes, sides.map((p) => p.sent || 0)],
      ["predicted", micros, sides.map((p) => p.predicted_us || 0)], ["peak per device", bytes, sides.map((p) => p.peak || 0)]];
    const table = h("table", { class: "xl-table xl-weighed" }, h("thead", {}, h("tr", {}, ["", "now", "", "what if", "", ""].map((t, i) => h("th", { class: i === 1 || i === 3 ? "n" : null }, t)))),
      h("tbody", {}, lines.map(([what, say, [a, b]]) => {
        const most = Math.max(a, b) || 1;
        const word = a === b ? "same" : b < a ? "less" : "more";
        return h("tr", { class: `xl-is-${word}` }, h("td", {}, what), h("td", { class: "n" }, a ? say(a) : "0"), h("td", {}, share(a / most)), h("td", { class: "n" }, b ? say(b) : "0"), h("td", {}, share(b / most)), h("td", { class: "xl-verdict" }, { same: "=", less: "▼ less", more: "▲ more" }[word]));
      })));
    return h("div", {}, table, h("div", { class: "xl-pair" }, sides.map((p, i) => h("figure", { class: "xl-weighed-side" },
      h("figcaption", {}, `${p.title} · mesh ${p.mesh.axis_names.map((n, k) => `${n}=${p.mesh.axis_sizes[k]}`).join(" ")}`),
      real[i].length ? h("ul", {}, real[i].slice(0, 40).map((t) => h("li", {}, collectiveLine(t)))) : h("p", {}, "no collectives"), real[i].length > 40 ? h("p", { class: "xl-dim" }, `and ${real[i].length - 40} more`) : null))));
  }
  const share = (part) => h("span", { class: "xl-share" }, h("span", { style: `width:${(100 * part).toFixed(1)}%` }));
  function collectiveLine(t) {
    const over = t.axes?.length ? t.axes.join() : t.groups?.length ? `${t.groups.length} groups of ${t.groups[0].length}` : "pairs";
    const often = t.times === 1 ? "" : ` × ${t.times ?? "?"}`;
    const who = !t.origin ? `you${t.call ? ` (${t.call})` : ""}` : reducing.includes(t.kind) ? "partitioner" : "partitioner ⚠";
    return `${t.kind}${t.reduction ? ` ${t.reduction}` : ""} over ${over}, ${bytes(t.bytes_in || 0)} → ${bytes(t.bytes_out || 0)}${often}, ${who}${t.source ? `, line ${t.source.line}` : ""}`;
  }
  /** Placements in order; choosing one puts its specs into the controls. */
  function ranked(found) {
    const list = found.found || [];
    const most = Math.max(...list.map((p) => p.predicted_us || 0), 1e-9);
    const take = (p) => {
      const types = new Map(p.arguments || []);
      specs = program().args.map((a, i) => specOf(types.get(a.name), a.shape.length) || specs[i]);
      rows();
      run();
    };
    const left = [found.left ? `${found.left.toLocaleString("en")} combinations not tried` : "", found.refused ? `${found.refused} could not be compiled` : ""].filter(Boolean).join("; ");
    return h("div", {}, h("div", { class: "xl-scroll" }, h("table", { class: "xl-table xl-ranking" },
      h("thead", {}, h("tr", {}, ["", "placement", "collectives", "sent per device", "predicted", "", "peak", ""].map((t, i) => h("th", { class: [0, 2, 3, 4, 6].includes(i) ? "n" : null }, t)))),
      h("tbody", {}, list.slice(0, 100).map((p, i) => h("tr", {}, h("td", { class: "n" }, String(i + 1)), h("td", {}, h("code", {}, p.title)), h("td", { class: "n" }, String((p.transfers || []).filter((t) => t.instruction).length)),
        h("td", { class: "n" }, bytes(p.sent || 0)), h("td", { class: "n" }, p.predicted_us ? micros(p.predicted_us) : "0"), h("td", {}, share((p.predicted_us || 0) / most)), h("td", { class: "n" }, bytes(p.peak || 0)),
        h("td", {}, h("button", { type: "button", class: "xl-try", click: () => take(p) }, "use"))))))), h("p", { class: "xl-dim" }, "In order of what the collectives are predicted to take; what devices compute is not weighed."), left ? h("p", { class: "xl-dim" }, left) : null);
  }
  /** The spec that a type text shows: `f32[8@data,4@model]`. */
  function specOf(type, rank) {
    const inside = /\[([^\]]*)\]/.exec(type || "")?.[1];
    if (inside === undefined) return null;
    const dims = inside ? inside.split(",") : [];
    return dims.length === rank ? dims.map((d) => (d.includes("@") ? d.split("@")[1].split("+") : [])) : null;
  }

  const which = programs.length > 1 ? h("select", { "aria-label": "program", change: (e) => { at = +e.target.value; reset(); } }, programs.map((p, i) => h("option", { value: i }, p.name))) : null;
  host.replaceChildren(h("div", { class: "xl-bar-top xl-whatif-bar" }, which, h("label", {}, "mesh ", field), note, find),
    h("div", { class: "xl-scroll" }, h("table", { class: "xl-table xl-whatif-arguments" }, h("thead", {}, h("tr", {}, ["vary", "argument", "now", "dimensions over", "spec"].map((t) => h("th", {}, t)))), body)), cut,
    h("div", { class: "xl-bar-top" }, compile, search, back), result);
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
