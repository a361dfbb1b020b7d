import { h, listen } from "./dom.js";

/** A list of any length of which only the lines in sight exist as nodes. */

const rowHeight = 18;
const tallest = 8e6;

/**
 * @param {{label: string, paint(i: number): HTMLElement, bin: Function[]}} options `paint` makes the node of one line.
 */
export function makeRows({ label, paint, bin }) {
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
    const top = el.scrollTop * ratio();
    const from = Math.max(0, Math.floor(top / rowHeight) - 4);
    const to = Math.min(count, Math.ceil((top + (el.clientHeight || 400)) / rowHeight) + 4);
    const next = new Map();
    for (let at = from; at < to; at += 1) {
      const line = order ? order[at] : at;
      let node = held.get(line);
      if (!node) {
        node = paint(line);
        sheet.append(node);
      }
      node.style.top = `${at * rowHeight - top + el.scrollTop}px`;
      next.set(line, node);
    }
    for (const [line, node] of held) if (next.get(line) !== node) node.remove();
    held = next;
    first = from;
  }
  const later = () => {
    if (!pending) pending = requestAnimationFrame(draw);
  };
  listen(bin, el, "scroll", later, { passive: true });
  if (typeof ResizeObserver === "function") {
    const watch = new ResizeObserver(later);
    watch.observe(el);
    bin.push(() => watch.disconnect());
  }

  return {
    el,
    /** Show `n` lines, or the lines listed in `lines`. */
    show(n, lines = null) {
      order = lines;
      count = lines ? lines.length : n;
      space.style.height = `${Math.min(full(), tallest)}px`;
      this.refresh();
    },
    /** Paint the lines in sight again. */
    refresh() {
      for (const node of held.values()) node.remove();
      held = new Map();
      draw();
    },
    /** Bring a line into sight, if it is not. */
    reveal(line) {
      const at = order ? order.indexOf(line) : line;
      if (at < 0) return;
      const top = at * rowHeight;
      const now = el.scrollTop * ratio();
      if (top < now + rowHeight || top > now + el.clientHeight - 2 * rowHeight) {
        el.scrollTop = Math.max(0, (top - el.clientHeight / 3) / ratio());
      }
      later();
    },
    get first() {
      return first;
    },
  };
}
