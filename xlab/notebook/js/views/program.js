import { h, listen } from "../kit/dom.js";
import { makeRows } from "../kit/rows.js";
import { colour } from "../kit/code.js";
import { micros } from "../kit/format.js";

/** Python, jaxpr and compiled text side by side; an equation id joins their lines. */

const madeNames = (outs) => outs.split(" ").filter((t) => t.includes(":") && t[0] !== "(").map((t) => t.slice(0, t.indexOf(":")));

/** Read the columns of one program into what the page looks up. */
export function readProgram(data, index) {
  const { eqs } = data;
  const at = new Map(eqs.id.map((id, k) => [id, k]));
  const byPython = new Map();
  eqs.src.forEach((line, k) => {
    if (line >= 0) byPython.has(line) ? byPython.get(line).push(eqs.id[k]) : byPython.set(line, [eqs.id[k]]);
  });
  const heat = new Map(data.heat);
  let found = null;
  const names = () => {
    if (found) return found;
    found = { users: new Map(), makers: new Map() };
    const put = (map, k, name) => {
      const key = `${eqs.prog[k]} ${name}`;
      if (map.has(key)) map.get(key).push(eqs.id[k]);
      else map.set(key, [eqs.id[k]]);
    };
    eqs.id.forEach((_, k) => {
      for (const name of new Set(eqs.ins[k].split(" "))) put(found.users, k, name);
      for (const name of madeNames(eqs.outs[k])) put(found.makers, k, name);
    });
    return found;
  };
  const gather = (k, wanted, map) => [...new Set(wanted.flatMap((name) => map.get(`${eqs.prog[k]} ${name}`) || []))];
  return {
    data, index, at, byPython, heat,
    axes: data.mesh ? data.mesh.names : [],
    key: (id) => `${index}:${id}`,
    id: (key) => (key && key.startsWith(`${index}:`) ? +key.slice(String(index).length + 1) : -1),
    /** Equations that use what the k-th one made, in its own program. */
    uses: (k) => gather(k, madeNames(eqs.outs[k]), names().users),
    /** Equations that made what the k-th one uses. */
    makers: (k) => gather(k, eqs.ins[k].split(" "), names().makers),
  };
}

/** One line of words about an equation: what it made, its shard, where, who uses it. */
export function describe(program, id) {
  const k = program.at.get(id);
  if (k === undefined) return "";
  const { eqs, mesh, python } = program.data;
  const parts = [eqs.outs[k] || eqs.op[k]];
  const shape = /(\w+(?:<\w+>)?)\[([^\]]*@[^\]]*)\]/.exec(eqs.outs[k]);
  if (mesh && shape) {
    let pieces = 1;
    const dims = shape[2].split(",").map((dim) => {
      const [size, names] = dim.split("@");
      const by = names ? names.split("+").reduce((n, a) => n * (mesh.sizes[mesh.names.indexOf(a)] || 1), 1) : 1;
      pieces *= by;
      return Math.ceil(+size / by);
    });
    const copies = mesh.sizes.reduce((a, b) => a * b, 1) / pieces;
    parts.push(`shard ${shape[1]}[${dims.join(",")}] × ${pieces}, ${copies} ${copies === 1 ? "copy" : "copies"}`);
  }
  parts.push(eqs.op[k]);
  if (eqs.src[k] >= 0) parts.push(`line ${python.number[eqs.src[k]]}`);
  parts.push(`used by ${program.uses(k).length}`);
  if (eqs.extra[k]) parts.push(eqs.extra[k]);
  if (program.heat.has(id)) parts.push(micros(program.heat.get(id)));
  return parts.join("   ");
}

/** A virtual column of lines that takes part in the selection. */
export function makeColumn({ title, lines, ids, rowsOf, program, bus, bin, number, depth, fold, heat, operator }) {
  const hidden = new Set();
  let lit = new Map();
  let needle = "";
  const hottest = heat ? Math.max(...heat.values(), 1e-9) : 0;
  const visible = () => {
    if (!hidden.size) return null;
    const order = [];
    for (let i = 0; i < lines.length; i += 1) {
      order.push(i);
      if (hidden.has(i)) i += fold[i];
    }
    return order;
  };
  const digits = number ? String(Math.max(0, ...number)).length : 0;
  const rows = makeRows({
    label: title,
    bin,
    paint(i) {
      const mark = lit.get(i);
      const row = h("div", { class: `xl-row ${mark || ""}`, role: "option", "data-i": i, "aria-selected": mark === "xl-sel" ? "true" : "false" });
      if (heat) {
        const share = (heat.get(i) || 0) / hottest;
        row.append(h("i", { class: "xl-heat", style: `width:${(share * 20).toFixed(1)}px`, title: heat.has(i) ? micros(heat.get(i)) : "" }));
      }
      if (number) row.append(h("span", { class: "xl-no" }, String(number[i] || "").padStart(digits)));
      if (fold) {
        const sign = fold[i] ? (hidden.has(i) ? "▸" : "▾") : " ";
        row.append("  ".repeat(depth[i]), h("span", { class: fold[i] ? "xl-fold" : "xl-nofold" }, sign));
      }
      const text = lines[i];
      const found = needle ? text.toLowerCase().indexOf(needle) : -1;
      if (found >= 0) {
        colour(row, text.slice(0, found), program.axes);
        row.append(h("mark", {}, text.slice(found, found + needle.length)));
        colour(row, text.slice(found + needle.length), program.axes);
      } else colour(row, text, program.axes, operator ? operator(i) : "");
      if (hidden.has(i)) row.append(h("span", { class: "xl-dim" }, `  … ${fold[i]} lines`));
      return row;
    },
  });
  listen(bin, rows.el, "click", (event) => {
    const node = event.target.closest(".xl-row");
    if (!node) return;
    const i = +node.dataset.i;
    if (event.target.closest(".xl-fold")) toggle(i);
    else {
      const found = ids(i);
      bus.select(found.map(program.key), column);
    }
  });
  function toggle(i, closed = !hidden.has(i)) {
    if (closed) hidden.add(i);
    else hidden.delete(i);
    rows.show(lines.length, visible());
  }
  const column = {
    rows,
    el: h("div", { class: "xl-column" }, h("div", { class: "xl-column-title" }, title), rows.el),
    lines,
    toggle,
    /** Light the lines of these equations; `near` are makers and users of the first. */
    light(wanted, near, from) {
      lit = new Map();
      for (const id of near) for (const i of rowsOf(id)) lit.set(i, "xl-use");
      wanted.forEach((id, n) => {
        for (const i of rowsOf(id)) if (lit.get(i) !== "xl-sel") lit.set(i, n ? "xl-lnk" : "xl-sel");
      });
      const first = wanted.length ? rowsOf(wanted[0])[0] : undefined;
      if (first !== undefined) {
        if (hidden.size) openAround(first);
        if (from !== column) rows.reveal(first);
      }
      rows.refresh();
    },
    find(text) {
      needle = text.toLowerCase();
      rows.refresh();
      if (!needle) return [];
      const found = [];
      for (let i = 0; i < lines.length; i += 1) if (lines[i].toLowerCase().includes(needle)) found.push(i);
      return found;
    },
    start() {
      rows.show(lines.length, visible());
    },
    ids,
  };
  function openAround(line) {
    for (const i of [...hidden]) if (i < line && line <= i + fold[i]) hidden.delete(i);
    rows.show(lines.length, visible());
  }
  return column;
}

/** The jaxpr column, shared with the stepper. */
export function jaxprColumn(program, bus, bin) {
  const { rows, eqs } = program.data;
  const rowOf = new Map(eqs.id.map((id, k) => [id, eqs.row[k]]));
  const heat = program.heat.size ? new Map([...program.heat].map(([id, us]) => [rowOf.get(id), us])) : null;
  return makeColumn({
    title: "jaxpr", lines: rows.text, program, bus, bin, depth: rows.depth, fold: rows.fold, heat,
    ids: (i) => (rows.id[i] >= 0 ? [rows.id[i]] : []),
    rowsOf: (id) => (rowOf.has(id) ? [rowOf.get(id)] : []),
    operator: (i) => (rows.id[i] >= 0 ? eqs.op[program.at.get(rows.id[i])] : ""),
  });
}

/** The Python column, shared with the stepper; null when there are no sources. */
export function pythonColumn(program, bus, bin) {
  const { python, eqs } = program.data;
  if (!python.text.length) return null;
  let heat = null;
  if (program.heat.size) {
    heat = new Map();
    eqs.src.forEach((line, k) => heat.set(line, (heat.get(line) || 0) + (program.heat.get(eqs.id[k]) || 0)));
  }
  return makeColumn({
    title: "Python", lines: python.text, number: python.number, program, bus, bin, heat,
    ids: (i) => program.byPython.get(i) || [],
    rowsOf: (id) => { const k = program.at.get(id); return k !== undefined && eqs.src[k] >= 0 ? [eqs.src[k]] : []; },
  });
}

function levelColumn(program, level, bus, bin) {
  const byLine = new Map(level.links.map(([line, ...ids]) => [line - 1, ids]));
  const byId = new Map();
  for (const [line, ids] of byLine) for (const id of ids) byId.has(id) ? byId.get(id).push(line) : byId.set(id, [line]);
  const heat = level.heat.length ? new Map(level.heat.map(([line, us]) => [line - 1, us])) : null;
  return makeColumn({
    title: level.name, lines: level.lines, program, bus, bin, heat,
    ids: (i) => byLine.get(i) || [], rowsOf: (id) => byId.get(id) || [],
  });
}

/** Draw one program's columns into `host`; returns what the report's keys call. */
export function mountProgram(host, program, bus, bin) {
  const { data } = program;
  const python = pythonColumn(program, bus, bin);
  const jaxpr = jaxprColumn(program, bus, bin);
  const columns = [python, jaxpr].filter(Boolean);
  const grid = h("div", { class: "xl-columns" }, columns.map((c) => c.el));
  let level = null;
  const cache = new Map();
  const choose = (i) => {
    if (!cache.has(i)) cache.set(i, levelColumn(program, data.levels[i], bus, bin));
    const next = cache.get(i);
    if (level) {
      level.el.replaceWith(next.el);
      columns.splice(columns.indexOf(level), 1, next);
    } else {
      grid.append(next.el);
      columns.push(next);
    }
    level = next;
    const title = level.el.firstChild;
    title.textContent = "";
    title.append(h("select", { "aria-label": "level", change: (e) => choose(+e.target.value) },
      data.levels.map((lv, k) => h("option", { value: k, selected: k === i }, lv.name))));
    level.start();
    again();
  };
  const count = h("span", { class: "xl-dim", "aria-live": "polite" });
  const search = h("input", { type: "search", placeholder: "find  /", "aria-label": "find in program" });
  let hits = [];
  let hit = -1;
  listen(bin, search, "input", () => {
    const found = columns.map((c) => c.find(search.value).map((i) => [c, i]));
    hits = found[columns.indexOf(jaxpr)].concat(...found.filter((_, k) => columns[k] !== jaxpr));
    hit = -1;
    count.textContent = search.value ? `${hits.length} found` : "";
  });
  listen(bin, search, "keydown", (event) => {
    if (event.key === "Enter" && hits.length) {
      hit = (hit + (event.shiftKey ? hits.length - 1 : 1)) % hits.length;
      const [column, i] = hits[hit];
      column.rows.reveal(i);
      if (column.ids(i).length) bus.select(column.ids(i).map(program.key), column);
      count.textContent = `${hit + 1} of ${hits.length}`;
    }
  });
  const most = data.counts.slice(0, 6).map(([name, n]) => `${name} ${n}`).join("  ");
  host.replaceChildren(h("div", { class: "xl-bar-top" }, h("strong", {}, data.name), h("span", { class: "xl-dim xl-counts", title: data.counts.map((c) => c.join(" ")).join(", ") }, most), count, search), grid);
  const again = () => light(bus.keys);
  function light(keys, from) {
    const ids = keys.map(program.id).filter((id) => program.at.has(id));
    const k = ids.length ? program.at.get(ids[0]) : -1;
    const near = k >= 0 ? [...program.makers(k), ...program.uses(k)].slice(0, 500) : [];
    for (const c of columns) c.light(ids, near, from);
  }
  bus.on(light);
  return {
    search,
    start() {
      for (const c of columns) c.start();
      if (data.levels.length && !level) choose(data.levels.length - 1);
      if (data.eqs.id.length) globalThis.requestIdleCallback?.(() => program.uses(0));
    },
    /** Move the selection: by one line at this depth or less, into or out of a nested program. */
    move(how) {
      const { eqs, rows } = data;
      const now = program.at.get(program.id(bus.keys[0])) ?? -1;
      const deep = (k) => rows.depth[eqs.row[k]];
      let k = now;
      if (how === "next") for (k = now + 1; now >= 0 && k < eqs.id.length && deep(k) > deep(now); k += 1);
      else if (how === "back") for (k = now - 1; now >= 0 && k > 0 && deep(k) > deep(now); k -= 1);
      else if (how === "into") k = now + 1;
      else for (k = now - 1; k > 0 && deep(k) >= deep(now); k -= 1);
      if (how === "into" && now >= 0 && !(k < eqs.id.length && deep(k) > deep(now))) return;
      if (k >= 0 && k < eqs.id.length) bus.select([program.key(eqs.id[k])], null);
    },
  };
}
