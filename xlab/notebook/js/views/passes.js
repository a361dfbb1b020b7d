import { h, listen } from "../kit/dom.js";
import { makeRows } from "../kit/rows.js";
import { colour, marked, shortHlo } from "../kit/code.js";
import { micros } from "../kit/format.js";
import { definePanel } from "../kit/panels.js";
import { pressed } from "./program.js";

/** The compiler's passes: a list, and the module as each left it, with what it took away and what it put there. */

const context = 3;
const nameOf = (text) => /^\s*(?:ROOT )?(%[\w.-]+|%\w+(?::\d+)?) =/.exec(text)?.[1] || "";
/** Whether a line has a name in it, and not only a longer one that begins like it. */
function mentions(text, name) {
  for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + 1)) if (!/[\w.-]/.test(text[at + name.length] ?? "")) return true;
  return false;
}
const equationOf = (text) => +(/ {2}# e(\d+)$/.exec(text)?.[1] ?? -1);

/** Passes with the texts of their lines, which the data names by their number in one table. */
export function readPasses({ passes, lines }) {
  const texts = (numbers) => numbers.map((n) => lines[n]);
  return passes.map((p) => ({
    ...p,
    before: p.before.length ? texts(p.before) : null,
    edits: p.edits.map(([at, gone, came, ...found]) => [at, gone, texts(found.slice(0, came)), ...(found.length > came ? [texts(found.slice(came))] : [])]),
  }));
}

/** Modules before each pass: made from the one before, kept once made. Null where it was cut. */
export function moduleBefore(passes) {
  const known = new Map();
  const after = (lines, edits) => {
    const out = [];
    let done = 0;
    for (const [at, gone, came] of edits) {
      for (; done < at; done += 1) out.push(lines[done]);
      out.push(...came);
      done = at + gone;
    }
    for (; done < lines.length; done += 1) out.push(lines[done]);
    return out;
  };
  return (index) => {
    const todo = [];
    let n = index;
    for (; n >= 0 && !known.has(n) && !passes[n].before; n -= 1) {
      if (n < index && passes[n].cut && passes[n].changed) return null;
      if (n > 0 && passes[n - 1].stage !== passes[n].stage) return null;
      todo.push(n);
    }
    if (n < 0 || (n < index && passes[n].cut && passes[n].changed)) return null;
    if (!known.has(n)) known.set(n, passes[n].before);
    for (const next of todo.reverse()) {
      known.set(next, after(known.get(n), passes[n].edits));
      n = next;
    }
    return known.get(index);
  };
}

/** Lines of the whole module with what the pass changed: `[sign, text, line number, the line it stands against]`. */
export function changedLines(before, pass) {
  const out = [];
  let done = 0;
  let shift = 0;
  if (!before) {
    for (const [at, , came, lost] of pass.edits) {
      out.push(["@", `line ${(at + 1).toLocaleString("en")}`, at + 1, ""]);
      (lost || []).forEach((line, n) => out.push(["-", line, "", came[n] ?? ""]));
      came.forEach((line, n) => out.push(["+", line, "", lost?.[n] ?? ""]));
    }
    return out;
  }
  const same = (to) => {
    for (; done < to; done += 1) out.push([" ", before[done], done + 1 + shift, ""]);
  };
  for (const [at, gone, came] of pass.edits) {
    same(at);
    for (let n = 0; n < gone; n += 1) out.push(["-", before[at + n], "", came[n] ?? ""]);
    came.forEach((line, n) => out.push(["+", line, at + n + 1 + shift, n < gone ? before[at + n] : ""]));
    done = at + gone;
    shift += came.length - gone;
  }
  same(before.length);
  return out;
}

/** Only what changed and a little around it; what is left out is counted. */
export function aroundChanges(lines) {
  const keep = new Set();
  lines.forEach(([sign], i) => {
    if (sign !== " ") for (let n = i - context; n <= i + context; n += 1) keep.add(n);
  });
  const out = [];
  let hidden = 0;
  lines.forEach((line, i) => {
    if (keep.has(i)) {
      if (hidden) out.push(["@", `${hidden.toLocaleString("en")} ${hidden === 1 ? "line" : "lines"} the same`, "", ""]);
      hidden = 0;
      out.push(line);
    } else hidden += 1;
  });
  if (hidden) out.push(["@", `${hidden.toLocaleString("en")} ${hidden === 1 ? "line" : "lines"} the same`, "", ""]);
  return out;
}

/** The part in which a line differs from the one it stands against: `[start, end]`, or null if most of it does. */
function differing(text, other) {
  if (!other) return null;
  let start = 0;
  while (start < text.length && text[start] === other[start]) start += 1;
  let end = 0;
  while (end < text.length - start && end < other.length - start && text[text.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  return start + end > text.length * 0.35 ? [start, text.length - end] : null;
}

/** Draw the passes into `host`; returns what the report's keys call. */
export function mountPasses(host, data, bus, bin) {
  const { program, stages } = data;
  const passes = readPasses(data);
  const before = moduleBefore(passes);
  const changed = passes.map((p, i) => (p.changed ? i : -1)).filter((i) => i >= 0);
  const most = Math.max(1, ...changed.map((i) => passes[i].changed));
  let idle = false;
  let only = false;
  let now = changed[0] ?? 0;
  let lines = [];
  let name = "";
  let chosen = -1;
  let moved = false;
  let needle = "";

  const rows = makeRows({
    label: "the module, and what the pass changed", bin,
    paint(i) {
      const [sign, text, number, other] = lines[i];
      const kind = { "+": "xl-came", "-": "xl-went", "@": "xl-gap" }[sign] || "";
      const equation = equationOf(text);
      const own = name && nameOf(text) === name;
      const row = h("div", { class: `xl-row ${kind} ${own || (!name && chosen >= 0 && equation === chosen) ? "xl-sel" : chosen >= 0 && equation === chosen ? "xl-lnk" : ""}`, role: "option", "data-i": i });
      if (sign === "@") row.append(h("span", { class: "xl-no" }, ""), h("span", { class: "xl-dim" }, `⋯ ${text}`));
      else {
        row.append(h("span", { class: "xl-no" }, String(number).padStart(5)), h("span", { class: "xl-mark" }, sign === "-" ? "−" : sign));
        const plain = text.replace(/ {2}# e\d+$/, "");
        const shown = sign === " " && !(needle && plain.toLowerCase().includes(needle)) ? shortHlo(plain) : plain;
        const part = sign === " " ? null : differing(plain, other.replace(/ {2}# e\d+$/, ""));
        const language = "mlir";
        if (needle && shown.toLowerCase().includes(needle)) marked(row, shown, needle);
        else if (part && part[1] > part[0]) {
          colour(row, shown.slice(0, part[0]), [], language);
          colour(row.appendChild(h("b", { class: "xl-word" })), shown.slice(...part), [], language);
          colour(row, shown.slice(part[1]), [], language);
        } else colour(row, shown, [], language);
        if (shown !== plain) row.append(h("span", { class: "xl-dim", title: plain.trim() }, " …"));
        if (name) for (const span of row.querySelectorAll(".xl-w")) if (span.textContent === name) span.classList.add("xl-same");
      }
      return row;
    },
  });
  listen(bin, rows.el, "scroll", () => { moved = true; }, { passive: true });
  listen(bin, rows.el, "click", (event) => {
    const node = event.target.closest(".xl-row");
    const line = node && lines[+node.dataset.i];
    if (!line || line[0] === "@") return;
    const word = event.target.closest(".xl-w")?.textContent;
    name = word || nameOf(line[1]);
    chosen = equationOf(line[1]);
    rows.refresh();
    if (program >= 0) bus.select(chosen >= 0 ? [`${program}:${chosen}`] : [], rows);
    where();
  });

  const title = h("span", { class: "xl-pass-title" });
  const said = h("p", { class: "xl-dim xl-pass-cut" });
  const count = h("span", { class: "xl-dim", "aria-live": "polite" });
  const step = h("span", { class: "xl-dim xl-pass-where", "aria-live": "polite" });
  const places = () => lines.flatMap(([sign], i) => (/[+-]/.test(sign) && !(i && /[+-]/.test(lines[i - 1][0])) ? [i] : []));
  function where() {
    const here = !name || lines.some(([sign, text]) => sign !== "-" && mentions(text, name));
    step.textContent = name ? (here ? `following ${name}` : `${name} is not in this module`) : "";
    step.title = step.textContent;
  }
  /** The line of the name that is followed: where it is made, else where it is first read. */
  function placeOfName() {
    const made = lines.findIndex(([sign, text]) => sign !== "-" && nameOf(text) === name);
    return made >= 0 ? made : lines.findIndex(([sign, text]) => sign !== "-" && mentions(text, name));
  }
  /** What the eye is on: the chosen instruction, else the first line in sight. */
  function anchor() {
    if (!lines.length) return null;
    const own = name ? placeOfName() : -1;
    const at = own >= 0 ? own : Math.min(lines.length - 1, Math.max(0, rows.first + 4));
    const [, text, number] = lines[at];
    return { name: own >= 0 ? name : nameOf(text), equation: equationOf(text), text, number: +number || at, high: own >= 0 ? 3 : 1e9 };
  }
  function placeFor(eye) {
    const by = (test) => lines.findIndex((line) => line[0] !== "@" && line[0] !== "-" && test(line));
    for (const test of [
      (line) => eye.name && nameOf(line[1]) === eye.name,
      (line) => eye.name && name === eye.name && mentions(line[1], eye.name),
      (line) => eye.text.trim() && line[1] === eye.text,
      (line) => eye.equation >= 0 && equationOf(line[1]) === eye.equation,
      (line) => +line[2] >= eye.number,
    ]) {
      const found = by(test);
      if (found >= 0) return found;
    }
    return 0;
  }
  function compute() {
    const whole = changedLines(before(now), passes[now]);
    lines = only ? aroundChanges(whole) : whole;
  }
  function show(index, eye = moved || name ? anchor() : null) {
    now = index;
    compute();
    const p = passes[now];
    title.replaceChildren(h("strong", {}, p.name), h("span", { class: "xl-dim" }, ` ${stages[p.stage] || p.stage}${p.pipeline && p.pipeline !== p.stage ? ` · ${p.pipeline}` : ""}`),
      h("span", { class: "xl-came-n" }, p.changed ? ` +${p.added.toLocaleString("en")}` : ""), h("span", { class: "xl-went-n" }, p.changed ? ` −${p.removed.toLocaleString("en")}` : " changed nothing"),
      h("span", { class: "xl-dim" }, p.us === null ? "" : `  ${micros(p.us)}`));
    said.textContent = p.cut || (lines.length ? "" : "No module is known here: the compiler writes one only after a pass that changed it.");
    said.hidden = !said.textContent;
    rows.show(lines.length);
    const first = places()[0];
    const at = eye ? placeFor(eye) : first;
    if (at !== undefined && lines.length) {
      rows.el.scrollTop = 0;
      rows.reveal(at, eye ? eye.high : 3);
    }
    // Our own move is not the reader's.
    if (!eye) requestAnimationFrame(() => requestAnimationFrame(() => { moved = false; }));
    for (const node of list.children) {
      const on = +node.dataset.pass === now;
      node.setAttribute("aria-selected", String(on));
      node.classList.toggle("xl-sel", on);
      if (on) node.scrollIntoView?.({ block: "nearest" });
    }
    find();
    where();
  }
  const listed = () => passes.map((_, i) => i).filter((i) => idle || passes[i].changed);
  function go(by) {
    const all = listed();
    const at = all.findIndex((i) => i >= now);
    const next = all[Math.max(0, Math.min(all.length - 1, (at < 0 ? all.length : at) + by))];
    if (next !== undefined && next !== now) show(next);
  }
  function toChange(by) {
    const all = places();
    if (!all.length) return;
    const from = Math.max(0, rows.first + 4);
    const next = by > 0 ? all.find((i) => i > from + 3) ?? all[0] : [...all].reverse().find((i) => i < from) ?? all[all.length - 1];
    rows.el.scrollTop = 0;
    rows.reveal(next, 4);
    moved = true;
  }

  const list = h("div", { class: "xl-pass-list", role: "listbox", tabindex: "0", "aria-label": "passes" });
  listen(bin, list, "click", (event) => {
    const node = event.target.closest("[data-pass]");
    if (node) show(+node.dataset.pass);
  });
  function fill() {
    const out = [];
    let stage = "";
    for (const i of listed()) {
      const p = passes[i];
      if (p.stage !== stage) out.push(h("div", { class: "xl-pass-stage", role: "presentation" }, stages[p.stage] || p.stage));
      stage = p.stage;
      out.push(h("div", { class: `xl-pass-row${p.changed ? "" : " xl-pass-idle"}`, role: "option", "data-pass": i, title: `${p.name}${p.pipeline ? `   ${p.pipeline}` : ""}` },
        h("span", { class: "xl-pass-name" }, p.name, p.runs > 1 ? h("small", {}, ` ×${p.runs}`) : ""),
        h("span", { class: "xl-came-n" }, p.changed ? `+${p.added.toLocaleString("en")}` : ""), h("span", { class: "xl-went-n" }, p.changed ? `−${p.removed.toLocaleString("en")}` : ""),
        h("span", { class: "xl-pass-us" }, p.us === null ? "" : micros(p.us)),
        h("span", { class: "xl-pass-bar2" }, p.changed ? h("i", { style: `width:${(100 * p.changed / most).toFixed(1)}%` }) : "")));
    }
    list.replaceChildren(...out);
  }
  const still = passes.filter((p) => !p.changed);
  const runs = still.reduce((n, p) => n + p.runs, 0);
  const hidden = still.length ? pressed(`${runs.toLocaleString("en")} runs of ${new Set(still.map((p) => p.name)).size} passes that changed nothing, or only write code`, "show or hide them", false, (on) => {
    idle = on;
    fill();
    show(now, anchor());
  }, "xl-pass-more") : null;

  const search = h("input", { type: "search", placeholder: "find  /", "aria-label": "find in the module" });
  let hits = [];
  let hit = -1;
  function find() {
    needle = search.value.toLowerCase();
    hits = needle ? lines.flatMap(([, text], i) => (text.toLowerCase().includes(needle) ? [i] : [])) : [];
    hit = -1;
    count.textContent = needle ? `${hits.length.toLocaleString("en")} found` : "";
    rows.refresh();
  }
  listen(bin, search, "input", find);
  listen(bin, search, "keydown", (event) => {
    if (event.key !== "Enter" || !hits.length) return;
    hit = (hit + (event.shiftKey ? hits.length - (hit < 0 ? 0 : 1) : 1)) % hits.length;
    rows.reveal(hits[hit]);
    moved = true;
    count.textContent = `${hit + 1} of ${hits.length.toLocaleString("en")}`;
  });
  const button = (text, words, run) => h("button", { type: "button", title: words, "aria-label": words, click: run }, text);
  host.replaceChildren(h("div", { class: "xl-passes-grid" },
    h("div", { class: "xl-pass-side" }, list, hidden),
    h("div", { class: "xl-pass-module" },
      h("div", { class: "xl-bar-top" }, button("←", "the pass before (←)", () => go(-1)), button("→", "the next pass (→)", () => go(1)), title),
      h("div", { class: "xl-bar-top xl-pass-tools" }, button("↑", "the change before (↑)", () => toChange(-1)), button("↓", "the next change (↓)", () => toChange(1)),
        pressed("only changes", "only the lines that change and those around them", only, (on) => {
          const eye = anchor();
          only = on;
          show(now, eye);
        }), step, h("span", { class: "xl-counts" }), count, search), said, rows.el)));
  bus.on((keys, from) => {
    if (from === rows || program < 0) return;
    chosen = keys[0]?.startsWith(`${program}:`) ? +keys[0].split(":")[1] : -1;
    name = "";
    const at = chosen >= 0 ? lines.findIndex(([sign, text]) => sign !== "-" && equationOf(text) === chosen) : -1;
    rows.refresh();
    if (at >= 0) rows.reveal(at);
    where();
  });
  fill();
  return {
    search,
    start: () => show(now, null),
    key(pressedKey) {
      if (pressedKey === "ArrowLeft") go(-1);
      else if (pressedKey === "ArrowRight") go(1);
      else if (pressedKey === "ArrowDown") toChange(1);
      else if (pressedKey === "ArrowUp") toChange(-1);
      else return false;
      return true;
    },
  };
}

definePanel("passes", (section, { data, bus, bin }) => {
  if (!data.passes) return null;
  const part = mountPasses(section.querySelector(".xl-passes-static"), data.passes, bus, bin);
  part.start();
  return part;
});
