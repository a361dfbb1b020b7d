import { h, listen } from "./dom.js";

/** A list of any length of which only the lines in sight exist as nodes. It is as tall as its lines, up to a limit set by the style. */

const rowHeight = 18;
const tallest = 8e6;
let lists = 0;

/**
 * @param {{label: string, paint(i: number): HTMLElement, bin: Function[]}} options `paint` makes the node of one line.
 */
export function makeRows({ label, paint, bin }) {
  lists += 1;
  const prefix = `xl-l${lists}-`;
  const space = h("div", { class: "xl-space" });
  const sheet = h("div", { class: "xl-sheet" });
  const el = h("div", { class: "xl-rows", tabindex: "0", role: "listbox", "aria-label": label }, space, sheet);
  let order = null;
  let count = 0;
  let held = new Map();
  let pending = 0;
  let first = -1;

  const full = () => count * rowHeight;
  const ratio = () => (full() > tallest ? (full() - el.clientHeight) / (tallest - el.clientHeight) : 1);

  function draw() {
    pending = 0;
    // Measured once: to ask again after a change would have the page laid out for every line.
    const scrolled = el.scrollTop;
    const top = scrolled * ratio();
    const shift = scrolled - top;
    const fresh = [];
    const from = Math.max(0, Math.floor(top / rowHeight) - 4);
    const to = Math.min(count, Math.ceil((top + (el.clientHeight || 400)) / rowHeight) + 4);
    const next = new Map();
    for (let at = from; at < to; at += 1) {
      const line = order ? order[at] : at;
      let node = held.get(line);
      if (!node) {
        node = paint(line);
        node.id = prefix + line;
        node.setAttribute("aria-posinset", at + 1);
        node.setAttribute("aria-setsize", count);
        fresh.push(node);
      }
      node.style.top = `${at * rowHeight + shift}px`;
      next.set(line, node);
    }
    for (const [line, node] of held) if (next.get(line) !== node) node.remove();
    sheet.append(...fresh);
    held = next;
    first = from;
  }
  /** As tall as the lines, and the bar below them where a line is wider than the list. */
  function fit() {
    const bar = (el.offsetHeight || 0) - (el.clientHeight || 0);
    el.style.height = `${Math.min(full(), tallest) + (bar > 0 && bar < 30 ? bar : 0) + 2}px`;
  }
  const later = () => {
    if (!pending) pending = requestAnimationFrame(draw);
  };
  bin.push(() => cancelAnimationFrame(pending));
  listen(bin, el, "scroll", later, { passive: true });
  if (typeof ResizeObserver === "function") {
    const watch = new ResizeObserver(() => {
      later();
      fit();
    });
    watch.observe(el);
    bin.push(() => watch.disconnect());
  }
  /** Where a line stands among those shown: lines are in order, so by halves. */
  function placeOf(line) {
    if (!order) return line < count ? line : -1;
    let low = 0;
    let high = order.length - 1;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (order[mid] < line) low = mid + 1;
      else high = mid;
    }
    return order[low] === line ? low : -1;
  }

  return {
    el,
    placeOf,
    /** Show `n` lines, or the lines listed in `lines`, ascending. */
    show(n, lines = null) {
      order = lines;
      count = lines ? lines.length : n;
      space.style.height = `${Math.min(full(), tallest)}px`;
      fit();
      this.refresh();
    },
    /** Paint the lines in sight again. */
    refresh() {
      for (const node of held.values()) node.remove();
      held = new Map();
      draw();
    },
    /** Bring a line into sight, if it is not, and tell those who listen to the screen that it is the current one. */
    reveal(line, high = 3) {
      const at = placeOf(line);
      if (at < 0) return;
      const top = at * rowHeight;
      const now = el.scrollTop * ratio();
      if (top < now + rowHeight || top > now + el.clientHeight - 2 * rowHeight) {
        el.scrollTop = Math.max(0, (top - el.clientHeight / high) / ratio());
      }
      el.setAttribute("aria-activedescendant", prefix + line);
      later();
    },
    get first() {
      return first;
    },
  };
}
