import { h, listen } from "../kit/dom.js";
import { makeColumn } from "../kit/column.js";
import { resizable } from "./edges.js";
import { colour, marked, shortHlo } from "../kit/code.js";
import { micros } from "../kit/format.js";
import { definePanel } from "../kit/panels.js";
import { paintJaxpr } from "./jaxpr_line.js";
import { chips, chipsUnderPointer, stateWords, statesOf } from "./chips.js";
import { makeGraph } from "./graph.js";

/** Python, jaxpr and compiled text side by side; an equation id joins their lines. */

const madeNames = (outs) => outs.split(" ").filter((t) => t.includes(":") && t[0] !== "(").map((t) => t.slice(0, t.indexOf(":")));

/** Equations by which a call is chosen. */
const mostChosen = 500;

/** What is looked up of the calls of a program, by keys as "0:5", or "0:5f" and "0:5b" for one pass. */
function callsOf(data, index) {
  const { eqs } = data;
  const heads = (data.heads || []).map(([row, calls, back, from, to]) => ({ row, calls, from, to, side: back ? "b" : "f" }));
  const byRow = new Map(heads.map((head) => [head.row, head]));
  const read = (key) => {
    const [, call, side] = /:(\d+)([fb]?)$/.exec(key) || [];
    return [+call, side || ""];
  };
  const found = (key) => {
    const [call, side] = read(key);
    return heads.filter((head) => head.calls.includes(call) && (!side || head.side === side));
  };
  // Below a heading, or at the top of a program, in order.
  const below = new Map();
  const opened = new Map();
  for (const head of heads) {
    const own = eqs.prog[head.from];
    const open = opened.get(own) || opened.set(own, []).get(own);
    while (open.length && open.at(-1).to <= head.from) open.pop();
    const above = open.at(-1) ?? own;
    if (below.has(above)) below.get(above).push(head);
    else below.set(above, [head]);
    open.push(head);
  }
  const keyOf = (head) => `${index}:${head.calls.at(-1)}${head.side}`;
  return {
    head: (row) => byRow.get(row),
    /** The headings below one, or at the top of the program that the k-th equation stands in. */
    headsIn: (k, within) => below.get(within ?? eqs.prog[k]) || [],
    callOf: (row) => (byRow.has(row) ? keyOf(byRow.get(row)) : ""),
    /** The heading of a call, the first where it has several. */
    rowOfCall: (key) => (key.startsWith(`${index}:`) ? found(key)[0]?.row ?? -1 : -1),
    /** The keys of its equations; a few hundred stand for more. */
    callKeys(key) {
      const keys = [];
      for (const { from, to } of found(key)) for (let k = from; k < to && keys.length < mostChosen; k += 1) keys.push(`${index}:${eqs.id[k]}`);
      return keys;
    },
    /** One line of words about a call: its equations, its line, what it should take. */
    describeCall(key) {
      const [call, side] = read(key);
      const [name, line, forward, back] = data.calls?.[call] || [];
      if (name === undefined) return "";
      const count = found(key).reduce((sum, head) => sum + head.to - head.from, 0);
      const whole = data.calls[0][2] + data.calls[0][3];
      const us = (side !== "b" ? forward : 0) + (side !== "f" ? back : 0);
      return [name, back && side ? (side === "b" ? "backward" : "forward") : "", `${count.toLocaleString("en")} equation${count === 1 ? "" : "s"}`, line ? `called at line ${line}` : "",
        us ? `${micros(us)} predicted, ${Math.round((100 * us) / whole)} % of the program` : ""].filter(Boolean).join("   ");
    },
  };
}

/** Read the columns of one program into what the page looks up. */
export function readProgram(data, index) {
  const { eqs } = data;
  const at = new Map(eqs.id.map((id, k) => [id, k]));
  const byPython = new Map();
  eqs.src.forEach((line, k) => {
    if (line >= 0) byPython.has(line) ? byPython.get(line).push(eqs.id[k]) : byPython.set(line, [eqs.id[k]]);
  });
  let users = null;
  const usersOf = (k) => {
    if (!users) {
      users = new Map();
      eqs.args.forEach((list, user) => {
        for (const a of list) if (a >= 0) users.has(a) ? users.get(a).push(user) : users.set(a, [user]);
      });
    }
    return users.get(k) || [];
  };
  const names = new Map(Object.entries(data.names || {}));
  const ids = (list) => [...new Set(list)].map((k) => eqs.id[k]);
  const program = {
    data, index, at, byPython,
    heat: new Map(data.heat),
    axes: data.mesh ? data.mesh.names : [],
    named: true,
    names,
    shown: (name) => (program.named && names.get(name)) || name,
    key: (id) => `${index}:${id}`,
    /** How deep in other programs the one of the k-th equation lies. */
    deep: (k) => (eqs.deep || data.rows.depth)[eqs.deep ? k : eqs.row[k]],
    ...callsOf(data, index),
    id: (key) => (key && key.startsWith(`${index}:`) ? +key.slice(String(index).length + 1) : -1),
    /** Equations that use what the k-th one made, in its own program. */
    uses: (k) => ids(usersOf(k)),
    /** Equations that made what the k-th one uses. */
    makers: (k) => ids(eqs.args[k].filter((a) => a >= 0)),
    /** The equation that made a variable which the k-th one uses or makes, and those that use it. */
    variable(k, name) {
      if (madeNames(eqs.outs[k]).includes(name)) return [eqs.id[k], ...program.users(k, name)];
      const from = eqs.args[k][eqs.ins[k].split(" ").indexOf(name)];
      if (from >= 0) return [eqs.id[from], ...program.users(from, name)];
      const same = eqs.args.flatMap((list, user) => (from < -1 && eqs.prog[user] === eqs.prog[k] && list.includes(from) ? [eqs.id[user]] : []));
      return same.length ? same : [eqs.id[k]];
    },
    users: (k, name) => ids(usersOf(k).filter((user) => eqs.ins[user].split(" ").includes(name))),
    /** The type of a variable as the k-th equation sees it. */
    typeOf(k, name) {
      const from = madeNames(eqs.outs[k]).includes(name) ? k : eqs.args[k][eqs.ins[k].split(" ").indexOf(name)];
      const text = from >= 0 ? eqs.outs[from] : data.inputs[-2 - from] || "";
      return text.split(/ (?=[\w.]+:)/).find((t) => t.startsWith(`${name}:`))?.slice(name.length + 1) || "";
    },
  };
  return program;
}

/** What each device holds of a type such as f32[8@data,4], in words; empty when nothing is split. */
function shardWords(mesh, text) {
  const shape = /(\w+(?:<\w+>)?)\[([^\]]*@[^\]]*)\]/.exec(text);
  if (!mesh || !shape) return "";
  let pieces = 1;
  const dims = shape[2].split(",").map((dim) => {
    const [size, names] = dim.split("@");
    const by = names ? names.split("+").reduce((n, a) => n * (mesh.sizes[mesh.names.indexOf(a)] || 1), 1) : 1;
    pieces *= by;
    return Math.ceil(+size / by);
  });
  const copies = mesh.sizes.reduce((a, b) => a * b, 1) / pieces;
  return `shard ${shape[1]}[${dims.join(",")}] × ${pieces}, ${copies} ${copies === 1 ? "copy" : "copies"}`;
}

/** One line of words about an equation: what it made, its shard, where, who uses it. */
export function describe(program, id) {
  const k = program.at.get(id);
  if (k === undefined) return "";
  const { eqs, mesh, python } = program.data;
  const user = program.names.get(madeNames(eqs.outs[k])[0]);
  const parts = [(eqs.outs[k] || eqs.op[k]) + (user && user[0] !== "_" ? ` (${user})` : "")];
  const shard = shardWords(mesh, eqs.outs[k]);
  if (shard) parts.push(shard);
  parts.push(eqs.op[k]);
  if (eqs.src[k] >= 0) parts.push(`line ${python.number[eqs.src[k]]}`);
  parts.push(`used by ${program.uses(k).length}`);
  if (eqs.extra[k]) parts.push(eqs.extra[k]);
  if (program.heat.has(id)) parts.push(`${micros(program.heat.get(id))}${(program.data.shared || []).includes(id) ? ", estimated: its part of what was measured of a fused operation" : ""}`);
  return parts.join("   ");
}

/** The heading of a call: its name, and which pass. */
function paintHead(row, text, needle) {
  const [name, pass] = text.split("   ");
  row.classList.add("xl-call-row");
  marked(row.appendChild(h("b", {})), name, needle);
  if (pass) row.append(h("span", { class: "xl-way" }, pass));
}

const casts = new Set(["pvary", "preduced", "vary_unreduced_cast", "reduced_vary_cast"]);

/** The jaxpr column, shared with the stepper. */
export function jaxprColumn(program, bus, bin) {
  const { rows, eqs, mesh } = program.data;
  const rowOf = new Map(eqs.id.map((id, k) => [id, eqs.row[k]]));
  const heat = program.heat.size ? new Map([...program.heat].map(([id, us]) => [rowOf.get(id), us])) : null;
  const kOf = (i) => (rows.id[i] >= 0 ? program.at.get(rows.id[i]) : -1);
  const typeAt = (i, name) => {
    const k = kOf(i);
    return k >= 0 ? program.typeOf(k, name) : rows.text[i].split(" ").find((t) => t.startsWith(`${name}:`))?.slice(name.length + 1) || "";
  };
  // Programs in which some type says how it varies: there, one that says nothing is the same everywhere.
  let checked = null;
  const statesAt = (i, name) => {
    if (!mesh || !name) return null;
    checked ||= new Set(eqs.outs.flatMap((outs, k) => (/\{[VUR]:/.test(outs) ? [eqs.prog[k]] : [])));
    const type = typeAt(i, name);
    return type && statesOf(type, mesh.names, kOf(i) >= 0 && checked.has(eqs.prog[kOf(i)]));
  };
  const column = makeColumn({
    title: "jaxpr", lines: rows.text, program, bus, bin, depth: rows.depth, fold: rows.fold, closed: rows.closed, heat,
    call: program.callOf, rowOfCall: program.rowOfCall,
    paint: (row, i, needle) => program.head(i) ? paintHead(row, rows.text[i], needle) : paintJaxpr(row, rows.text[i], rows.id[i] >= 0, { axes: program.axes, shown: program.shown, whole: column.whole, needle, same: column.same }),
    ids(i, name) {
      const k = kOf(i);
      column.same = name || "";
      if (k >= 0) return name ? program.variable(k, name) : [rows.id[i]];
      if (program.head(i)) return program.callKeys(program.callOf(i)).map(program.id);
      return name ? eqs.id.filter((_, at) => (i < (eqs.row[0] ?? 0) ? eqs.prog[at] === 0 : eqs.row[at] > i && eqs.row[at] <= i + rows.fold[i] && (eqs.deep || rows.depth[eqs.row[at]] === rows.depth[i] + 1)) && eqs.ins[at].split(" ").includes(name)) : [];
    },
    rowsOf: (id) => (rowOf.has(id) ? [rowOf.get(id)] : []),
    note(i, name) {
      const k = kOf(i);
      if (!name) return k >= 0 ? describe(program, eqs.id[k]) : program.head(i) ? program.describeCall(program.callOf(i)) : "";
      const type = typeAt(i, name);
      const user = program.names.get(name);
      const states = statesAt(i, name);
      return [type ? `${name} : ${type}` : name, user ? `called ${user}` : "", shardWords(mesh, type), states ? stateWords(states, mesh) : ""].filter(Boolean).join("\n");
    },
    matches(needle) {
      const letters = [...program.names].filter(([, user]) => user.toLowerCase().includes(needle)).map(([letter]) => letter);
      const word = letters.length && program.named ? new RegExp(`(?:^|\\s)(?:${letters.join("|")})(?=[:\\s]|$)`) : null;
      return (i) => rows.text[i].toLowerCase().includes(needle) || Boolean(word?.test(rows.text[i]));
    },
  });
  column.same = "";
  column.whole = false;
  // Of many parameters the last few are in sight: a program opens at what it computes.
  const begin = column.start;
  column.start = () => {
    begin();
    const first = Math.min(eqs.row[0], program.data.heads?.[0]?.[0] ?? Infinity);
    if (first > 12 && !bus.keys.length) column.rows.begin(first - 3);
  };
  // Of a name its state, of a rank with its numbers; of an equation that casts what was and what is: the colors change, and nothing moves.
  chipsUnderPointer(column, bin, (i, name) => {
    const k = kOf(i);
    const states = statesAt(i, name);
    if (name) return states && chips(states, mesh, k >= 0 && eqs.op[k] === "axis_index" && madeNames(eqs.outs[k]).includes(name));
    const [given, made] = k >= 0 && casts.has(eqs.op[k]) ? [eqs.ins[k], madeNames(eqs.outs[k])[0]].map((n) => statesAt(i, n)) : [];
    return given && made && h("span", { class: "xl-mat-axes" }, chips(given, mesh), "→", chips(made, mesh));
  });
  return column;
}

/** Text of a language with what was searched for marked. */
function paintCode(row, text, axes, language, needle) {
  const found = needle && text.toLowerCase().includes(needle);
  if (found) marked(row, text, needle);
  else colour(row, text, axes, language);
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
    paint: (row, i, needle) => paintCode(row, python.text[i], [], "python", needle),
    ids: (i) => program.byPython.get(i) || [],
    rowsOf: (id) => { const k = program.at.get(id); return k !== undefined && eqs.src[k] >= 0 ? [eqs.src[k]] : []; },
  });
}

function levelColumn(program, level, bus, bin) {
  const byLine = new Map(level.links.map(([line, ...ids]) => [line - 1, ids]));
  const byId = new Map();
  for (const [line, ids] of byLine) for (const id of ids) byId.has(id) ? byId.get(id).push(line) : byId.set(id, [line]);
  const heat = level.heat.length ? new Map(level.heat.map(([line, us]) => [line - 1, us])) : null;
  const column = makeColumn({
    title: level.name, lines: level.lines, program, bus, bin, heat, fold: new Map(level.fold), closed: level.closed,
    paint(row, i, needle) {
      const text = level.lines[i];
      const brief = shortHlo(text);
      const short = column.whole || (needle && text.toLowerCase().includes(needle) && !brief.toLowerCase().includes(needle)) ? text : brief;
      paintCode(row, short, program.axes, level.language, needle);
      if (short !== text) row.append(h("span", { class: "xl-dim", title: text.trim() }, " …"));
    },
    ids: (i) => byLine.get(i) || [], rowsOf: (id) => byId.get(id) || [],
  });
  column.whole = false;
  column.shortens = level.lines.some((line) => shortHlo(line) !== line);
  const begin = column.start;
  column.start = () => {
    begin();
    if (level.start && !bus.keys.length) column.rows.begin(level.start);
  };
  return column;
}

/** A button that stays in when pressed. */
export const pressed = (label, title, on, run, kind = "") => {
  const node = h("button", { type: "button", class: `xl-flat ${kind}`, title, "aria-pressed": String(on), click: () => {
    const now = node.getAttribute("aria-pressed") !== "true";
    node.setAttribute("aria-pressed", String(now));
    run(now);
  } }, label);
  return node;
};

export function keep(name, text, kind) {
  const url = URL.createObjectURL(new Blob([text], { type: kind }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Graphviz's language, for those who draw further, with the names that are on the screen. */
export function dotOf(program) {
  const { eqs, inputs, name } = program.data;
  const quoted = (text) => `"${text.replace(/[\\"]/g, "\\$&")}"`;
  const out = [`digraph ${quoted(name)} {`, "  node [shape=box, fontname=monospace];"];
  const called = (text) => text.replace(/(^| )(\w+)(?=:)/g, (_, space, letter) => space + program.shown(letter));
  inputs.forEach((text, i) => out.push(`  i${i} [shape=oval, label=${quoted(called(text))}];`));
  eqs.id.forEach((id, k) => {
    out.push(`  e${id} [label=${quoted(`${eqs.op[k]}\n${called(eqs.outs[k])}`).replace(/\n/g, "\\n")}];`);
    for (const a of new Set(eqs.args[k])) if (a >= 0 || (a < -1 && eqs.prog[k] === 0)) out.push(`  ${a >= 0 ? `e${eqs.id[a]}` : `i${-2 - a}`} -> e${id};`);
  });
  return `${out.join("\n")}\n}\n`;
}

/** Draw one program's columns into `host`; returns what the report's keys call. */
export function mountProgram(host, program, bus, bin) {
  const { data } = program;
  const jaxpr = jaxprColumn(program, bus, bin);
  let graph = null;
  let drawn = false;
  const grid = h("div", { class: "xl-columns" });
  const edges = resizable(grid, bin);
  const panes = [
    { name: "Python", make: () => pythonColumn(program, bus, bin), on: data.python.text.length > 0, there: data.python.text.length > 0 },
    { name: "jaxpr", make: () => jaxpr, on: true, there: true },
    ...data.levels.map((level, i) => ({ name: level.name, make: () => levelColumn(program, level, bus, bin), on: i === data.levels.length - 1, there: true })),
  ].filter((p) => p.there);
  const open = () => panes.filter((p) => p.on && p.column).map((p) => p.column);
  function arrange() {
    for (const pane of panes) {
      if (!pane.on || pane.column) continue;
      pane.column = pane.make();
      tools(pane.column);
      pane.fresh = true;
    }
    grid.replaceChildren(...open().map((c) => c.el));
    edges();
    // The first pane takes what its lines need, so that short Python leaves room for the rest.
    const [first] = open();
    if (first && first !== jaxpr) grid.style.setProperty("--first", `${first.lines.reduce((most, line) => Math.max(most, line.length), 0) * 7.6 + (program.heat.size ? 110 : 80)}px`);
    else grid.style.removeProperty?.("--first");
    for (const pane of panes) {
      if (pane.fresh) pane.column.start();
      pane.fresh = false;
    }
    light(bus.keys);
  }
  /** The switches of one pane. */
  function tools(column) {
    const put = (...nodes) => column.bar.append(...nodes);
    if (column.folds) put(pressed("fold", "fold everything that folds, or open it", false, (on) => column.foldAll(on), "xl-text"));
    if (column === jaxpr) {
      if (program.names.size) put(pressed("names", "the variables' own names, or letters as in the printed program", true, (on) => {
        program.named = on;
        jaxpr.rows.refresh();
      }, "xl-text"));
      put(pressed("params", "all parameters, or those that fit", false, (on) => {
        jaxpr.whole = on;
        jaxpr.rows.refresh();
      }, "xl-text"));
      if (data.eqs.id.length) put(pressed("graph", "the same program as a graph", false, showGraph));
    } else if (column.shortens) {
      put(pressed("attributes", "all attributes, or those that say what is computed; where a line comes from is shown by the selection", false, (on) => {
        column.whole = on;
        column.rows.refresh();
      }));
    }
  }
  function showGraph(on) {
    drawn = on;
    if (on && !graph) {
      graph = makeGraph(program, bus, bin);
      graph.tools = h("span", { class: "xl-graph-tools" },
        h("button", { type: "button", class: "xl-flat", title: "open all boxes", click: () => graph.openAll(true) }, "open all"),
        h("button", { type: "button", class: "xl-flat", title: "close all boxes", click: () => graph.openAll(false) }, "close all"),
        h("button", { type: "button", class: "xl-flat", title: "smaller (ctrl and wheel, or -)", "aria-label": "smaller", click: () => graph.zoomBy(0.8) }, "−"),
        h("button", { type: "button", class: "xl-flat", title: "larger (ctrl and wheel, or +)", "aria-label": "larger", click: () => graph.zoomBy(1.25) }, "+"),
        h("button", { type: "button", class: "xl-flat", title: "as wide as the pane", click: () => graph.fit() }, "fit"));
    }
    if (on) {
      const first = !graph.el.parentNode && !graph.begun;
      jaxpr.rows.el.replaceWith(graph.el);
      if (first) requestAnimationFrame(() => {
        graph.fit(0.62);
        light(bus.keys);
      });
      graph.begun = true;
      jaxpr.bar.append(graph.tools);
      graph.later();
    } else {
      graph.el.replaceWith(jaxpr.rows.el);
      graph.tools.remove();
      jaxpr.rows.refresh();
    }
    jaxpr.el.classList.toggle("xl-wide", on);
    light(bus.keys);
  }

  const count = h("span", { class: "xl-dim", "aria-live": "polite" });
  const search = h("input", { type: "search", placeholder: "find  /", "aria-label": "find in program" });
  let hits = [];
  let hit = -1;
  listen(bin, search, "input", () => {
    const columns = [jaxpr, ...open().filter((c) => c !== jaxpr)].filter((c) => open().includes(c));
    hits = columns.flatMap((c) => c.find(search.value).map((i) => [c, i]));
    hit = -1;
    count.textContent = search.value ? `${hits.length.toLocaleString("en")} found` : "";
  });
  listen(bin, search, "keydown", (event) => {
    if (event.key === "Enter" && hits.length) {
      hit = (hit + (event.shiftKey ? hits.length - (hit < 0 ? 0 : 1) : 1)) % hits.length;
      const [column, i] = hits[hit];
      if (column.ids(i).length) bus.select(column.ids(i).map(program.key), column);
      column.show(i);
      count.textContent = `${hit + 1} of ${hits.length.toLocaleString("en")}`;
    }
  });
  const most = data.counts.slice(0, 8).map(([name, n]) => h("button", { type: "button", class: "xl-flat xl-count", title: `find ${name}`, click: () => {
    search.value = name;
    search.dispatchEvent ? search.dispatchEvent(new Event("input")) : null;
  } }, name, h("small", {}, ` ${n.toLocaleString("en")}`)));
  const choice = panes.length > 2 ? h("span", { class: "xl-panes", role: "group", "aria-label": "which levels stand side by side" },
    panes.map((pane) => pressed(pane.name, `show or hide ${pane.name}`, pane.on, (on) => {
      pane.on = on;
      arrange();
    }))) : null;
  const file = data.name.replace(/[^\w.-]+/g, "_") || "program";
  const saves = {
    "text": () => keep(`${file}.txt`, `${data.rows.text.map((t, i) => "  ".repeat(data.rows.depth[i]) + t).join("\n")}\n`, "text/plain"),
    "SVG": () => keep(`${file}.svg`, (graph ||= makeGraph(program, bus, bin)).svg(), "image/svg+xml"),
    "DOT": () => keep(`${file}.dot`, dotOf(program), "text/plain"),
    "JSON": () => keep(`${file}.json`, JSON.stringify(data), "application/json"),
  };
  const save = h("select", { class: "xl-save", "aria-label": "save the program", title: "save the program as a file", change: () => {
    saves[save.value]?.();
    save.value = "";
  } }, h("option", { value: "" }, "save"), Object.keys(saves).map((name) => h("option", { value: name }, name)));
  const total = data.eqs.id.length;
  host.replaceChildren(h("div", { class: "xl-bar-top" }, h("strong", {}, data.name), h("span", { class: "xl-dim" }, `${total.toLocaleString("en")} equation${total === 1 ? "" : "s"}`),
    h("span", { class: "xl-counts", title: data.counts.map((c) => c.join(" ")).join(", ") }, most), count, search, save), choice || "", grid);

  function light(keys, from) {
    const ids = keys.map(program.id).filter((id) => program.at.has(id));
    const k = ids.length ? program.at.get(ids[0]) : -1;
    const near = k >= 0 ? [...program.makers(k), ...program.uses(k)].slice(0, 500) : [];
    if (!ids.length) jaxpr.same = "";
    for (const c of open()) c.light(ids, near, from);
    if (drawn) graph.light(ids, near, from);
  }
  bus.on(light);
  return {
    search,
    start: arrange,
    /** Move the selection: by one line at this depth or less, into or out of a nested program. */
    move(how) {
      const { eqs, rows } = data;
      const now = program.at.get(program.id(bus.keys[0])) ?? -1;
      const { deep } = program;
      let k = now;
      if (how === "next") for (k = now + 1; now >= 0 && k < eqs.id.length && deep(k) > deep(now); k += 1);
      else if (how === "back") for (k = now - 1; now >= 0 && k > 0 && deep(k) > deep(now); k -= 1);
      else if (how === "into") k = now + 1;
      else for (k = now - 1; k > 0 && deep(k) >= deep(now); k -= 1);
      if (how === "into" && now >= 0 && !(k < eqs.id.length && deep(k) > deep(now))) return;
      if (k >= 0 && k < eqs.id.length) {
        jaxpr.same = "";
        bus.select([program.key(eqs.id[k])], null);
      }
    },
  };
}

definePanel("program", (section, { programs, bus, bin, failing }) => [...section.querySelectorAll(".xl-program-static")].map((host, i) => programs[i] && failing(section, () => {
  const part = mountProgram(host, programs[i], bus, bin);
  part.start();
  return part;
})).filter(Boolean));
