import { h, listen } from "./dom.js";

/** How deep a row stands under the headings of calls. */
export const deepOf = (row) => +row.style.getPropertyValue("--d") || 0;

/** The caret of a heading; `turn(shut)` is told what it shows. */
export function foldOf(head, bin, turn) {
  let shut = false;
  const node = h("span", { class: "xl-fold", role: "button", tabindex: "0", "aria-expanded": "true", title: "show or hide what is in it" }, "▾");
  const press = (event) => {
    event.stopPropagation();
    event.preventDefault();
    shut = !shut;
    node.textContent = shut ? "▸" : "▾";
    node.setAttribute("aria-expanded", String(!shut));
    turn(shut);
  };
  listen(bin, node, "click", press);
  listen(bin, node, "keydown", (event) => (event.key === "Enter" || event.key === " ") && press(event));
  head.firstChild.prepend(node);
}

/** Tables under headings of calls fold. */
export function foldTables(root, bin) {
  for (const body of root.querySelectorAll(".xl-by-call tbody")) {
    const rows = [...body.children];
    const shut = new Set();
    const show = () => {
      let under = Infinity; // rows deeper than this stand under a heading that is shut
      for (const row of rows) {
        if (deepOf(row) <= under) under = Infinity;
        row.hidden = under < Infinity;
        if (shut.has(row)) under = Math.min(under, deepOf(row));
      }
    };
    rows.forEach((row, i) => {
      if (!row.classList.contains("xl-call-row") || !rows[i + 1] || deepOf(rows[i + 1]) <= deepOf(row)) return;
      foldOf(row, bin, (now) => {
        if (now) shut.add(row);
        else shut.delete(row);
        show();
      });
    });
  }
}
