import { h, listen } from "../kit/dom.js";
import { axisShade } from "./mesh.js";

/** How a value is over each mesh axis, as chips: a color for each value, and a sign between devices that have one together. Python draws the same. */

const signs = { V: "", I: "=", U: "+", R: "↓" };
const words = { V: "differs from device to device", I: "is the same on all devices", U: "is a sum whose parts the devices hold", R: "is the same on all devices; its cotangent is a sum in parts" };
const most = 8;

/** The state of a type such as f32[4]{V:i R:j} over each axis of a mesh; null where the type says nothing and `checked` does not say that it is the same. */
export function statesOf(text, names, checked = false) {
  const found = /\{([VUR]:[^{}]*)\}/.exec(text);
  if (!found && !checked) return null;
  const states = new Map();
  for (const part of found ? found[1].split(" ") : []) for (const name of part.slice(2).split(",")) states.set(name, part[0]);
  return names.map((name) => states.get(name) || "I");
}

/** The chips of these states; with `ranks` those that vary say where along the axis their devices are. */
export function chips(states, mesh, ranks = false) {
  return h("span", { class: "xl-mat-axes" }, states.map((state, k) => {
    const shown = Math.min(mesh.sizes[k], most);
    const parts = [];
    for (let i = 0; i < shown; i += 1) {
      parts.push(h("span", { class: ranks && state === "V" ? "xl-mat xl-swatch xl-rank" : "xl-mat xl-swatch", style: axisShade(k, state === "V" ? i : 0, shown) }, ranks && state === "V" ? String(i) : ""));
      if (signs[state] && i + 1 < shown) parts.push(h("span", { class: "xl-mat-sign" }, signs[state]));
    }
    return h("span", { class: "xl-mats" }, h("small", {}, `${mesh.names[k]} ${state} `), parts);
  }));
}

/** A card beside what is under the pointer in a column of lines, with what `picture(line, name)` draws of it. */
export function chipsUnderPointer(column, bin, picture) {
  const { el, rows } = column;
  const card = h("div", { class: "xl-card" });
  el.append(card);
  listen(bin, rows.el, "mouseleave", () => card.replaceChildren());
  listen(bin, rows.el, "mouseover", (event) => {
    const row = event.target.closest(".xl-row");
    if (!row) return;
    const named = event.target.closest("[data-v]");
    card.replaceChildren(...[picture(+row.dataset.i, named?.dataset.v)].filter(Boolean));
    if (!card.firstChild) return;
    const [at, around] = [named || row.querySelector(".xl-op") || row, el].map((node) => node.getBoundingClientRect());
    const below = at.bottom - around.top + 3;
    card.style.left = `${Math.max(4, at.left - around.left)}px`;
    card.style.top = `${below + 30 < around.height ? below : at.top - around.top - 28}px`;
  });
}

export const stateWords = (states, mesh) => states.map((state, k) => `over ${mesh.names[k]} it ${words[state]}`).join("\n");
