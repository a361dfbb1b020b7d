import { h, listen } from "./dom.js";
import { makeRows } from "./rows.js";
import { micros } from "./format.js";

/** A virtual column of lines that folds, is searched, and takes part in the selection. */

/** A share as the gutter writes it: nothing for what was not measured, and never a false zero. */
function heatShare(share) {
  return share <= 0 ? "" : share < 0.005 ? "<1 %" : `${Math.round(100 * share)} %`;
}

/**
 * @param {any} options `paint(row, i, needle)` puts the text of line i into its row; `ids(i)` are the equations of a line and `rowsOf(id)` its
 *   lines; `fold[i]` (list or Map) counts the lines that fold under i, `closed` lists those folded at first; `matches(i, needle)` where text is not all; `call(i)` the call that
 *   line i is the heading of, and `rowOfCall(call)` where its heading is.
 */
export function makeColumn({ title, lines, ids, rowsOf, program, bus, bin, number, depth, fold, closed, heat, paint, matches, note, call, rowOfCall }) {
  const foldOf = fold instanceof Map ? (i) => fold.get(i) || 0 : fold ? (i) => fold[i] : () => 0;
  const hidden = new Set(closed || []);
  let lit = new Map();
  let needle = "";
  const hottest = heat ? [...heat.values()].reduce((most, us) => Math.max(most, us), 1e-9) : 0;
  const spent = heat ? [...heat.values()].reduce((sum, us) => sum + us, 1e-9) : 0;
  const visible = () => {
    if (!hidden.size) return null;
    const order = [];
    for (let i = 0; i < lines.length; i += 1) {
      order.push(i);
      if (hidden.has(i)) i += foldOf(i);
    }
    return order;
  };
  const digits = number ? String(number.reduce((a, b) => Math.max(a, b), 0)).length : 0;
  const rows = makeRows({
    label: title,
    bin,
    paint(i) {
      const mark = lit.get(i);
      const row = h("div", { class: `xl-row ${mark || ""}${heat ? " xl-heated" : ""}`, role: "option", "data-i": i, "aria-selected": mark === "xl-sel" ? "true" : "false" });
      if (heat) {
        const us = heat.get(i) || 0;
        row.append(
          h("i", { class: "xl-heat", style: `width:${((us / hottest) * 22).toFixed(1)}px;opacity:${(0.35 + (0.65 * us) / hottest).toFixed(2)}` }),
          h("span", { class: "xl-heat-share", title: heat.has(i) ? `${micros(us)}, ${((100 * us) / spent).toFixed(1)} % of what was measured` : "" }, heatShare(us / spent)));
      }
      if (number) row.append(h("span", { class: "xl-no" }, String(number[i] || "").padStart(digits)));
      if (depth) row.append("  ".repeat(depth[i]));
      const count = fold ? foldOf(i) : 0;
      const shut = hidden.has(i);
      if (fold) row.append(h("span", count ? { class: "xl-fold", title: `${shut ? "show" : "hide"} ${count} lines` } : { class: "xl-nofold" }, count ? (shut ? "▸" : "▾") : " "));
      paint(row, i, needle);
      if (count) row.setAttribute("aria-expanded", String(!shut));
      if (shut) row.append(h("span", { class: "xl-dim" }, `  … ${count} lines`));
      return row;
    },
  });
  listen(bin, rows.el, "click", (event) => {
    const node = event.target.closest(".xl-row");
    if (!node) return;
    const i = +node.dataset.i;
    // The first of two clicks paints the row anew: the second says that it is one.
    if (event.target.closest(".xl-fold") || (event.detail === 2 && foldOf(i))) toggle(i);
    else bus.select(ids(i, event.target.dataset?.v).map(program.key), column, call?.(i));
  });
  if (note) {
    listen(bin, rows.el, "mouseover", (event) => {
      const node = event.target.closest(".xl-row");
      if (!node) return;
      const name = event.target.dataset?.v;
      if (!event.target.title) {
        const text = note(+node.dataset.i, name);
        if (text) event.target.title = text;
      }
      for (const other of rows.el.querySelectorAll(".xl-near")) other.classList.remove("xl-near");
      if (name) for (const other of rows.el.querySelectorAll(`[data-v="${name}"]`)) other.classList.add("xl-near");
    });
  }
  function toggle(i, shut = !hidden.has(i)) {
    if (shut) hidden.add(i);
    else hidden.delete(i);
    rows.show(lines.length, visible());
  }
  const absent = h("small", {});
  const bar = h("div", { class: "xl-column-title" }, heat ? h("span", { class: "xl-heat-title", title: "measured time and its share, by line; estimated where operations were fused and measured together" }, "time") : null, h("span", {}, title, absent));
  const column = {
    rows,
    title,
    el: h("div", { class: "xl-column" }, bar, rows.el),
    bar,
    lines,
    toggle,
    /** Light the lines of these equations; `near` are makers and users of the first. */
    light(wanted, near, from) {
      lit = new Map();
      for (const id of near) for (const i of rowsOf(id)) lit.set(i, "xl-use");
      wanted.forEach((id, n) => {
        for (const i of rowsOf(id)) if (lit.get(i) !== "xl-sel") lit.set(i, n ? "xl-lnk" : "xl-sel");
      });
      const head = bus.call && rowOfCall ? rowOfCall(bus.call) : -1;
      if (head >= 0) lit.set(head, "xl-sel");
      const places = head >= 0 ? [head] : wanted.length ? rowsOf(wanted[0]) : [];
      absent.textContent = wanted.length && !wanted.some((id) => rowsOf(id).length) ? "  no line of its own" : "";
      if (places.length) {
        let first = places.find((i) => rows.placeOf(i) >= 0);
        if (first === undefined) {
          [first] = places;
          openAround(first);
        }
        if (from !== column) rows.reveal(first);
      }
      rows.refresh();
    },
    find(text) {
      needle = text.toLowerCase();
      rows.refresh();
      if (!needle) return [];
      const test = matches ? matches(needle) : (i) => lines[i].toLowerCase().includes(needle);
      const found = [];
      for (let i = 0; i < lines.length; i += 1) if (test(i)) found.push(i);
      return found;
    },
    /** Bring a line into sight, opening what it is folded in. */
    show(i) {
      openAround(i);
      rows.reveal(i);
    },
    /** Fold everything that folds at this depth or below, or nothing. */
    foldAll(shut) {
      hidden.clear();
      if (shut) for (let i = 0; i < lines.length; i += 1) if (foldOf(i)) hidden.add(i);
      rows.show(lines.length, visible());
    },
    folds: lines.some((_, i) => foldOf(i)),
    start() {
      rows.show(lines.length, visible());
    },
    ids,
  };
  function openAround(line) {
    let changed = false;
    for (const i of [...hidden]) if (i < line && line <= i + foldOf(i)) changed = hidden.delete(i);
    if (changed) rows.show(lines.length, visible());
  }
  return column;
}
