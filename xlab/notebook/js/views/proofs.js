import { asker } from "../kit/ask.js";
import { h } from "../kit/dom.js";
import { micros } from "../kit/format.js";
import { definePanel } from "../kit/panels.js";

/** Findings whose change a kernel can compile and run have a button for that; without a kernel there is none. */

/** Seconds that two compiles and their runs may take. */
const proofSeconds = 180;

const measuredText = ([before, after]) => `measured a run: ${micros(before)} → ${micros(after)}`;

/** What a kernel answered: the change with its proof, or why there is none. */
function answered(found) {
  const said = [found.proof, found.measured_us?.length === 2 ? measuredText(found.measured_us) : ""].filter(Boolean).join("; ");
  if (found.change) return h("div", { class: "xl-proved" }, h("b", {}, "Change: "), found.change, said ? h("span", { class: "xl-dim" }, `  ${said}`) : null);
  return h("div", { class: "xl-proved xl-dim" }, said || "there is no change here that could be compiled");
}

/** @param {HTMLElement} section @param {{model: any, bin: any[]}} page */
export function mountProofs(section, page) {
  const ask = asker(page.model, page.bin, proofSeconds);
  for (const item of ask ? section.querySelectorAll("[data-finding]") : []) {
    const prove = async () => {
      button.disabled = true;
      button.textContent = "compiling and running …";
      for (const old of item.querySelectorAll(":scope > .xl-error")) old.remove();
      try {
        const found = await ask("prove", { finding: +item.dataset.finding });
        for (const old of item.querySelectorAll(":scope > div")) old.remove();
        button.replaceWith(answered(found));
      } catch (error) {
        item.append(h("p", { class: "xl-error" }, `✕ ${error.message}`));
        button.disabled = false;
        button.textContent = "prove";
      }
    };
    const button = h("button", { type: "button", class: "xl-try", title: "compiles the program with the change, and runs it as it is and with the change", click: prove }, "prove");
    item.append(" ", button);
  }
  return null;
}

definePanel("overview", mountProofs);
