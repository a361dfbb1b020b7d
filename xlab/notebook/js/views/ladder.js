import { h, listen } from "../kit/dom.js";
import { makeColumn } from "../kit/column.js";
import { paintJaxpr } from "./jaxpr_line.js";
import { definePanel } from "../kit/panels.js";
import { pressed, pythonColumn } from "./program.js";

/** One program under the other. An equation chosen in one lights what it came from and what came from it, in all. */

const mostRelated = 1000;

/** Where every equation stands in the family of those that came from the same one. */
function families(programs, rungs) {
  const found = new Map();
  rungs.forEach((rung, r) => programs[r].data.eqs.id.forEach((id, k) => {
    const of = r ? rung.of[k] : id;
    if (of < 0) return;
    if (!found.has(of)) found.set(of, rungs.map(() => []));
    found.get(of)[r].push(id);
  }));
  return {
    of(r, id) {
      const k = programs[r].at.get(id);
      return k === undefined ? -1 : r ? rungs[r].of[k] : id;
    },
    get: (of) => found.get(of) || rungs.map(() => []),
  };
}

/** A column of one rung's equations, the rule that made each to its left. */
function rungColumn(program, rung, first, bus, bin) {
  const { rows, eqs } = program.data;
  const rowOf = new Map(eqs.id.map((id, k) => [id, eqs.row[k]]));
  const kOf = (i) => (rows.id[i] >= 0 ? program.at.get(rows.id[i]) : -1);
  const ruleOf = (k) => (first ? (eqs.src[k] >= 0 ? `line ${program.data.python.number[eqs.src[k]]}` : "") : rung.rules[rung.rule[k]]);
  const column = makeColumn({
    title: rung.name, lines: rows.text, program, bus, bin, depth: rows.depth, fold: rows.fold,
    paint(row, i, needle) {
      const k = kOf(i);
      const rule = k >= 0 ? ruleOf(k) : "";
      // Said where it begins: the lines below are of the same rule and the same equation.
      const again = k > 0 && eqs.row[k] - 1 === eqs.row[k - 1] && ruleOf(k - 1) === rule && rung.of[k - 1] === rung.of[k];
      row.prepend(h("span", { class: "xl-rule", title: rule }, again ? "" : rule), h("span", { class: "xl-d", title: k >= 0 && rung.derivative[k] ? "derivative" : "" }, k >= 0 && rung.derivative[k] ? "∂" : " "));
      paintJaxpr(row, rows.text[i], rows.id[i] >= 0, { axes: program.axes, shown: program.shown, whole: column.whole, needle });
    },
    ids: (i) => (kOf(i) >= 0 ? [rows.id[i]] : []),
    rowsOf: (id) => (rowOf.has(id) ? [rowOf.get(id)] : []),
    matches: (needle) => (i) => rows.text[i].toLowerCase().includes(needle) || (kOf(i) >= 0 && ruleOf(kOf(i)).toLowerCase().includes(needle)),
  });
  column.whole = false;
  return column;
}

/** Draw the ladder into its panel; returns what the report's keys call. */
export function mountLadder(host, programs, rungs, bus, bin) {
  const family = families(programs, rungs);
  for (const program of programs) program.data.python = programs[0].data.python;
  /** The selection with all that belongs to the same equation of the function. */
  const joined = {
    ...bus,
    on: bus.on,
    select(keys, from) {
      const chosen = [...new Set(keys)];
      const related = new Set();
      for (const key of chosen) {
        const r = programs.findIndex((p) => p.id(key) >= 0);
        if (r >= 0) family.get(family.of(r, programs[r].id(key))).forEach((ids, at) => ids.forEach((id) => related.add(programs[at].key(id))));
      }
      bus.select([...chosen, ...[...related].filter((key) => !chosen.includes(key))].slice(0, mostRelated), from);
    },
  };
  const columns = rungs.map((rung, r) => rungColumn(programs[r], rung, r === 0, joined, bin));
  const python = programs.length ? pythonColumn(programs[0], joined, bin) : null;
  const blocks = columns.map((column, r) => {
    const { name, says } = rungs[r];
    const n = programs[r].data.eqs.id.length;
    const fold = h("button", { type: "button", class: "xl-flat xl-rung-name", "aria-expanded": "true", title: "fold or open", click: () => {
      const shut = fold.getAttribute("aria-expanded") === "true";
      fold.setAttribute("aria-expanded", String(!shut));
      body.hidden = shut;
    } }, name);
    const body = h("div", {}, column.el);
    column.bar.remove();
    return h("section", { class: "xl-rung", "aria-label": name }, h("div", { class: "xl-rung-head" }, fold,
      h("span", { class: "xl-dim" }, `${n.toLocaleString("en")} equation${n === 1 ? "" : "s"}`), h("span", { class: "xl-dim xl-rung-says" }, says)), body);
  });
  const longest = Math.max(8, ...rungs.slice(1).flatMap((rung) => rung.rules.map((rule) => rule.length)));
  const refresh = () => columns.forEach((c) => c.rows.refresh());
  const count = h("span", { class: "xl-dim", "aria-live": "polite" });
  const search = h("input", { type: "search", placeholder: "find  /", "aria-label": "find an equation or a rule" });
  let hits = [];
  let hit = -1;
  listen(bin, search, "input", () => {
    hits = columns.flatMap((c, r) => c.find(search.value).map((i) => [r, i]));
    hit = -1;
    count.textContent = search.value ? `${hits.length.toLocaleString("en")} found` : "";
  });
  listen(bin, search, "keydown", (event) => {
    if (event.key !== "Enter" || !hits.length) return;
    hit = (hit + (event.shiftKey ? hits.length - (hit < 0 ? 0 : 1) : 1)) % hits.length;
    const [r, i] = hits[hit];
    joined.select(columns[r].ids(i).map(programs[r].key), null);
    columns[r].show(i);
    blocks[r].scrollIntoView?.({ block: "nearest" });
    count.textContent = `${hit + 1} of ${hits.length.toLocaleString("en")}`;
  });
  const tools = h("span", { class: "xl-ladder-tools" },
    pressed("names", "the variables' own names, or letters as in the printed program", true, (on) => {
      for (const p of programs) p.named = on;
      refresh();
    }),
    pressed("params", "all parameters, or those that fit", false, (on) => {
      for (const c of columns) c.whole = on;
      refresh();
    }));
  const wide = python ? `${python.lines.reduce((most, line) => Math.max(most, line.length), 0) * 7.6 + 80}px` : "";
  const grid = h("div", { class: python ? "xl-ladder-grid" : "" }, python ? h("div", { class: "xl-ladder-python" }, python.el) : null, h("div", { class: "xl-rungs" }, blocks));
  grid.style.setProperty("--rule", `${Math.min(36, longest) + 1}ch`);
  if (python) grid.style.setProperty("--first", wide);
  host.replaceChildren(h("div", { class: "xl-bar-top" }, h("span", { class: "xl-dim" }, "∂ computes a derivative"), h("span", { class: "xl-counts" }), count, search, tools), grid);

  bus.on((keys, from) => {
    const [key] = keys;
    const chosen = programs.findIndex((p) => p.id(key) >= 0);
    programs.forEach((program, r) => {
      const ids = keys.map(program.id).filter((id) => program.at.has(id));
      if (r === chosen) {
        const k = program.at.get(ids[0]);
        columns[r].light(ids, [...program.makers(k), ...program.uses(k)].slice(0, 200), from);
      } else {
        columns[r].light([-1, ...ids], [], from);
        const [place] = ids.length ? [programs[r].data.eqs.row[program.at.get(ids[0])]] : [];
        if (place !== undefined) columns[r].show(place);
      }
      blocks[r].classList.toggle("xl-has-part", ids.length > 0);
    });
    if (python) python.light(keys.map(programs[0].id).filter((id) => id >= 0), [], from);
  });
  return {
    search,
    start() {
      columns.forEach((c, r) => {
        c.start();
        // Where many arguments come first, what is made of them is in sight all the same.
        const first = programs[r].data.eqs.row[0] ?? 0;
        if (first > 8) c.rows.begin(first - 2);
      });
      if (python) python.start();
    },
    /** Words about the chosen equation: what made it. */
    key(name) {
      const ways = { ArrowRight: 1, ArrowLeft: -1 };
      const up = { ArrowDown: 1, ArrowUp: -1 }[name];
      let r = programs.findIndex((p) => p.id(bus.keys[0]) >= 0);
      if (!ways[name] && !up) return false;
      if (r < 0) {
        if (programs[0]?.data.eqs.id.length) joined.select([programs[0].key(programs[0].data.eqs.id[0])], null);
        return true;
      }
      const id = programs[r].id(bus.keys[0]);
      if (ways[name]) {
        const k = programs[r].at.get(id) + ways[name];
        if (programs[r].data.eqs.id[k] !== undefined) joined.select([programs[r].key(programs[r].data.eqs.id[k])], null);
        return true;
      }
      const kin = family.get(family.of(r, id));
      for (r += up; r >= 0 && r < programs.length; r += up) {
        if (!kin[r].length) continue;
        joined.select([programs[r].key(kin[r][0])], null);
        blocks[r].scrollIntoView?.({ block: "nearest" });
        break;
      }
      return true;
    },
  };
}

definePanel("ladder", (section, { data, programs, bus, bin }) => {
  const part = mountLadder(section.querySelector(".xl-ladder-static"), programs, data.ladder, bus, bin);
  part.start();
  return part;
});
