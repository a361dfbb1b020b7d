import { h, listen } from "../kit/dom.js";

const narrowest = 90;
const nudge = 24;

/**
 * The columns of a grid are made wider or narrower at the edge between two, with the pointer or the arrow keys; a double click gives
 * them their own widths back. Call what is returned when there are other columns.
 */
export function resizable(grid, bin) {
  let held = null;
  const columns = () => [...grid.children];
  const widths = () => columns().map((c) => c.getBoundingClientRect().width);
  const at = (edge) => columns().indexOf(edge.parentNode);
  function move(from, i, by) {
    const moved = Math.max(narrowest - from[i - 1], Math.min(from[i] - narrowest, by));
    grid.style.gridTemplateColumns = from.map((w, n) => `minmax(0,${(w + (n === i - 1 ? moved : n === i ? -moved : 0)).toFixed(1)}fr)`).join(" ");
  }
  listen(bin, grid, "pointerdown", (event) => {
    const edge = event.target.closest(".xl-edge");
    if (!edge) return;
    held = { from: widths(), i: at(edge), x: event.clientX };
    edge.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  listen(bin, grid, "pointermove", (event) => held && move(held.from, held.i, event.clientX - held.x));
  for (const over of ["pointerup", "pointercancel"]) listen(bin, grid, over, () => { held = null; });
  listen(bin, grid, "dblclick", (event) => event.target.closest(".xl-edge") && update());
  listen(bin, grid, "keydown", (event) => {
    const edge = event.target.closest(".xl-edge");
    if (!edge || !/^Arrow(Left|Right)$/.test(event.key)) return;
    move(widths(), at(edge), event.key === "ArrowLeft" ? -nudge : nudge);
    event.preventDefault();
    event.stopPropagation();
  });
  function update() {
    grid.style.gridTemplateColumns = "";
    columns().forEach((column, i) => {
      const edge = column.querySelector(".xl-edge");
      if (i === 0) edge?.remove();
      else if (!edge) column.append(h("i", { class: "xl-edge", role: "separator", tabindex: "0", "aria-orientation": "vertical", "aria-label": "width of the columns beside it", title: "drag, or ← →: wider; double click: as it was" }));
    });
  }
  update();
  return update;
}
