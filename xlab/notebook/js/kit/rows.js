import { h, listen } from "./dom.js";

/** A list of any length, of which only lines in sight are nodes. It is as tall as its lines, up to a limit of the style. */

const rowHeight = 18;
const tallest = 8e6;
let lists = 0;

/** Text of a line or part, without its margin. */
function textOf(node) {
  for (const aside of node.querySelectorAll(".xl-no, .xl-heat-share, .xl-fold, .xl-nofold, .xl-mark")) aside.remove();
  return node.textContent;
}

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
  let place = 0;

  // What the person marked here: the click that ends marking chooses nothing.
  const marked = () => {
    const seen = globalThis.getSelection?.();
    return seen && !seen.isCollapsed && el.contains(seen.anchorNode) ? seen : null;
  };
  listen(bin, el, "click", (event) => {
    const folds = event.target.closest(event.detail === 2 ? ".xl-row[aria-expanded]" : ".xl-fold");
    if (!folds && (marked() || event.detail > 1)) event.stopImmediatePropagation();
  }, true);
  listen(bin, el, "copy", (event) => {
    const seen = marked();
    const row = (node) => placeOf(+(node.closest ? node : node.parentNode).closest(".xl-row")?.dataset.i);
    const [one, two] = seen ? [row(seen.anchorNode), row(seen.focusNode)].sort((a, b) => a - b) : [-1];
    if (one < 0) return;
    const lines = one < two ? [] : [textOf(seen.getRangeAt(0).cloneContents())];
    for (let at = one; one < two && at <= two; at += 1) lines.push(textOf(paint(order ? order[at] : at)));
    event.clipboardData.setData("text/plain", lines.join("\n"));
    event.preventDefault();
  });

  const full = () => count * rowHeight;
  const ratio = () => (full() > tallest ? (full() - el.clientHeight) / (tallest - el.clientHeight) : 1);

  function draw() {
    pending = 0;
    // Out of the page, or hidden with what is around it, it says that it is scrolled to its top, and is not.
    if (held.size && el.clientHeight === 0) return;
    // Measured once: to ask again after a change would have the page laid out for every line.
    const scrolled = el.scrollTop;
    const top = scrolled * ratio();
    const shift = scrolled - top;
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
      }
      node.style.top = `${at * rowHeight + shift}px`;
      next.set(line, node);
    }
    const seen = marked();
    for (const [line, node] of held) {
      if (next.get(line) === node) continue;
      if (seen && (node.contains(seen.anchorNode) || node.contains(seen.focusNode))) next.set(line, node);
      else node.remove();
    }
    held = next;
    let after = null;     // what is marked goes by the order of nodes
    for (const [, node] of [...held].sort(([a], [b]) => b - a)) {
      if (!node.parentNode) after ? after.before(node) : sheet.append(node);
      after = node;
    }
    first = from;
  }
  /** As tall as the lines, and the bar below wide ones. */
  function fit() {
    const bar = (el.offsetHeight || 0) - (el.clientHeight || 0);
    el.style.height = `${Math.min(full(), tallest) + (bar > 0 && bar < 30 ? bar : 0) + 2}px`;
  }
  const later = () => {
    if (!pending) pending = requestAnimationFrame(draw);
  };
  bin.push(() => cancelAnimationFrame(pending));
  listen(bin, el, "scroll", () => {
    if (el.clientHeight) place = el.scrollTop;
    later();
  }, { passive: true });
  // Its animation shows nothing and starts whenever the list is put into a page, which forgets where it was scrolled and tells nobody.
  listen(bin, el, "animationstart", (event) => {
    if (event.target !== el) return;
    if (!el.scrollTop) el.scrollTop = place;
    later();
  });
  if (typeof ResizeObserver === "function") {
    const watch = new ResizeObserver(() => {
      later();
      fit();
    });
    watch.observe(el);
    bin.push(() => watch.disconnect());
  }
  /** Where a line stands among those shown, which are in order. */
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
    /** Bring a line into sight; screen readers hear that it is current. */
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
    /** Open at a line: it is the first in sight, as far as there are lines below. */
    begin(line) {
      el.scrollTop = (placeOf(line) * rowHeight) / ratio();
      later();
    },
    get first() {
      return first;
    },
  };
}
