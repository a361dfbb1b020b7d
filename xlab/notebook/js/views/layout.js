import { h, listen } from "../kit/dom.js";
import { colour } from "../kit/code.js";
import { bytes } from "../kit/format.js";
import { makeRows } from "../kit/rows.js";
import { definePanel } from "../kit/panels.js";
import { blocksPicture, deviceAt, meshPicture, meshSize, slicesOf } from "./mesh.js";

/** The Shardings tab: every array in a list of which only the lines in sight exist, and the chosen one drawn beside it. */

const roleNames = ["argument", "output", "array", "intermediate"];
const rowForm = 0;
const rowRole = 1;
const rowProgram = 2;
const rowEquation = 3;
const rowWhy = 4;
const rowName = 5;

/** Row `i` of columns that are filled up with -1. */
const filled = (columns, i) => columns.map((column) => column[i]).filter((x) => x !== -1);

/** Arrays as the page is given them, with what is worked out. */
export function readLayouts(data) {
  const listed = new Map(data.blocks.map(([i, ...numbers]) => [i, numbers]));
  const read = {
    count: data.rows[rowForm]?.length || 0,
    form: (i) => data.forms[data.rows[rowForm][i]],
    mesh: (i) => data.meshes[read.form(i).mesh],
    name: (i) => data.words[data.rows[rowName][i]],
    role: (i) => roleNames[data.rows[rowRole][i]],
    key: (i) => (data.rows[rowEquation][i] >= 0 ? `${data.rows[rowProgram][i]}:${data.rows[rowEquation][i]}` : ""),
    why: (i) => filled(data.whys, data.rows[rowWhy][i]).map((c) => filled(data.chains, c).map((w) => (w < 0 ? `… ${-2 - w} more steps …` : data.words[w]))),
    warnings: (i) => data.warned[i] || [],
    /** What each position of the mesh holds; null where neither spec nor blocks say. */
    held(i) {
      const form = read.form(i);
      const mesh = read.mesh(i);
      const numbers = listed.get(i);
      if (!mesh || form.shape.includes(-1)) return null;
      if (!numbers) return form.spec ? slicesOf(mesh, form.spec, form.shape) : null;
      const wide = 1 + 2 * form.shape.length;
      const of = new Map();
      for (let at = 0; at < numbers.length; at += wide) of.set(numbers[at], form.shape.map((_, d) => [numbers[at + 1 + 2 * d], numbers[at + 2 + 2 * d]]));
      const found = Array.from({ length: meshSize(mesh) }, (_, p) => of.get(deviceAt(mesh, p)));
      return found.every(Boolean) ? found : null;
    },
    /** The sentence of the text form. */
    line(i) {
      const form = read.form(i);
      return `${read.name(i) ? `${read.name(i)}: ` : ""}${form.type}${form.place}`;
    },
  };
  return read;
}

/** @param {HTMLElement} section @param {any} data columns of layouts @param {any} bus the selection */
export function mountLayouts(section, data, bus, bin) {
  const host = section.querySelector(".xl-layouts-static");
  if (!host || !data?.rows.length) return null;
  const all = readLayouts(data);
  const stage = h("div", { class: "xl-layout xl-layout-stage", "aria-live": "polite" });
  let chosen = -1;
  let shown = [];
  let role = "";
  let needle = "";
  const rows = makeRows({
    label: "arrays",
    bin,
    paint(i) {
      const form = all.form(i);
      const type = h("code", {});
      colour(type, form.type, all.mesh(i)?.names || [], "hlo");
      const flagged = all.warnings(i).length;
      return h("div", { class: `xl-row xl-layout-row${i === chosen ? " xl-sel" : ""}`, role: "option", "data-i": i, "aria-selected": String(i === chosen), title: all.line(i) },
        h("span", { class: "xl-dim" }, { argument: "arg", output: "out" }[all.role(i)] || ""), h("b", {}, all.name(i) || "·"), type, h("span", { class: "xl-dim" }, form.copies > 1 ? `× ${form.copies}` : ""), h("span", { class: "n" }, bytes(form.each || form.total)),
        h("b", { class: "xl-sign" }, flagged ? "⚠" : ""));
    },
  });
  // Names come before types where there is not room for both, for names of a tree differ at their ends.
  let nameWide = 3;
  for (let i = 0; i < all.count; i += 1) nameWide = Math.min(34, Math.max(nameWide, all.name(i).length));
  const count = h("span", { class: "xl-dim" });
  const list = () => {
    shown = [];
    for (let i = 0; i < all.count; i += 1) {
      if (role === "flagged" ? !all.warnings(i).length : role && all.role(i) !== role) continue;
      if (needle && !`${all.name(i)} ${all.form(i).type}`.toLowerCase().includes(needle)) continue;
      shown.push(i);
    }
    rows.show(all.count, shown);
    if (shown.length && chosen >= 0 && !shown.includes(chosen)) choose(shown[0], false);
    count.textContent = shown.length === all.count ? "" : `${shown.length.toLocaleString("en")} of ${all.count.toLocaleString("en")}`;
  };
  function draw(i) {
    const form = all.form(i);
    const mesh = all.mesh(i);
    const held = all.held(i);
    const said = all.line(i);
    const head = all.name(i) ? `${all.name(i)}: ` : "";
    const line = h("code", { class: "xl-layout-line" }, head);
    colour(line, form.type, mesh?.names || [], "hlo");
    line.append(said.slice(head.length + form.type.length));
    const facts = [all.role(i), form.committed ? "committed" : "uncommitted", form.kind].filter(Boolean).join(" · ");
    const why = all.why(i);
    stage.replaceChildren(...[line,
      ...all.warnings(i).map((w) => h("p", { class: "xl-warn" }, h("b", {}, "⚠ warning "), w)),
      held && mesh && meshSize(mesh) > 1 ? h("div", { class: "xl-pair" }, h("figure", {}, h("figcaption", {}, "array"), blocksPicture(form, mesh, held, all.name(i))),
        h("figure", {}, h("figcaption", {}, "mesh"), meshPicture(mesh, form, held, all.name(i)))) : null,
      why.length ? h("div", { class: "xl-why" }, h("b", {}, "why "), h("div", {}, why.map((chain) => h("ol", { class: "xl-chain" }, chain.map((step) => h("li", {}, step)))))) : null,
      h("p", { class: "xl-dim" }, facts)].filter(Boolean));
  }
  function choose(i, tell) {
    if (i === chosen || i < 0) return;
    chosen = i;
    draw(i);
    rows.refresh();
    rows.reveal(i);
    if (tell && all.key(i)) bus.select([all.key(i)], section);
  }
  const flagged = Object.keys(data.warned).length;
  const kinds = new Map();
  for (let i = 0; i < all.count; i += 1) kinds.set(all.role(i), (kinds.get(all.role(i)) || 0) + 1);
  const options = [["", `all arrays (${all.count.toLocaleString("en")})`], ...[...kinds].map(([kind, n]) => [kind, `${kind}s (${n.toLocaleString("en")})`]), ...(flagged ? [["flagged", `⚠ flagged (${flagged})`]] : [])];
  const filter = h("select", { "aria-label": "which arrays", change: (e) => (role = e.target.value, list()) }, options.map(([value, text]) => h("option", { value }, text)));
  const search = h("input", { type: "search", placeholder: "name or type", "aria-label": "find an array", input: (e) => (needle = e.target.value.trim().toLowerCase(), list()) });
  listen(bin, rows.el, "click", (event) => {
    const node = event.target.closest(".xl-row");
    if (node) choose(+node.dataset.i, true);
  });
  listen(bin, rows.el, "keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !shown.length) return;
    event.preventDefault();
    event.stopPropagation();
    choose(shown[Math.max(0, Math.min(shown.length - 1, shown.indexOf(chosen) + step))], true);
  });
  bus.on((keys, from) => {
    if (from === section || !keys.length) return;
    for (let i = 0; i < all.count; i += 1) {
      if (all.key(i) === keys[0]) {
        choose(i, false);
        return;
      }
    }
  });
  if (all.count === 1) {
    host.replaceChildren(stage);
    choose(0, false);
    return { rows };
  }
  host.replaceChildren(all.count > 6 ? h("div", { class: "xl-bar-top" }, filter, search, count) : null || "", h("div", { class: "xl-layouts-live", style: `--xl-name:${nameWide}ch` }, h("div", { class: "xl-layout-list" }, rows.el), stage));
  list();
  choose(Math.min(...Object.keys(data.warned).map(Number), all.count) % all.count, false);
  return { rows };
}

definePanel("shardings", (section, { data, bus, bin }) => mountLayouts(section, data.layouts, bus, bin));
