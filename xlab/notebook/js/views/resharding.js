import { h, listen } from "../kit/dom.js";
import { bytes } from "../kit/format.js";
import { makePlayer } from "./player.js";
import { definePanel } from "../kit/panels.js";
import { arrowNode, showArrows, takenBy } from "./dataflow.js";
import { readLayouts } from "./layout.js";
import { blocksPicture } from "./mesh.js";

/** Two layouts of one array: the arrows of all devices or of one, chosen with the player, a block or a row. */

export function mountResharding(section, data, bin) {
  if (data.layouts) {
    const both = readLayouts(data.layouts);
    section.querySelectorAll(".xl-side-static").forEach((place, i) => {
      const held = both.held(i);
      if (held) place.replaceWith(blocksPicture(both.form(i), both.mesh(i), held, both.name(i)));
    });
  }
  const svg = section.querySelector(".xl-moves-svg");
  const caption = section.querySelector(".xl-moves-of");
  if (!svg || !data.messages?.length) return;
  const places = new Map([...svg.querySelectorAll(".xl-dev")].map((g) => [+g.dataset.dev, [+g.dataset.x, +g.dataset.y]]));
  const arrows = svg.querySelector(".xl-arrows");
  const most = Math.max(...data.messages.map((m) => m[2]));
  const few = data.messages.length <= 16;
  const devices = few ? [-1, ...data.devices] : data.devices;
  const rows = [...section.querySelectorAll(".xl-devices tbody tr")];
  const show = (i) => {
    const of = devices[i];
    const shown = data.messages.filter(([s, t]) => of < 0 || s === of || t === of);
    const taken = takenBy([...places.values()]);
    showArrows(arrows, shown.filter(([s, t]) => places.has(s) && places.has(t)).map(([s, t, n]) => {
      const node = arrowNode(places.get(s), places.get(t), n, most, taken);
      if (of >= 0) node.classList.add(t === of ? "xl-arrives" : "xl-leaves");
      return node;
    }));
    const sum = (at) => shown.filter((m) => m[at] === of).reduce((a, m) => a + m[2], 0);
    caption.textContent = of < 0 ? `all ${data.messages.length} messages` : `device ${of}: receives ${bytes(sum(1))}, sends ${bytes(sum(0))}`;
    for (const row of rows) row.classList.toggle("xl-chosen", +row.dataset.dev === of);
    for (const g of svg.querySelectorAll(".xl-dev")) g.classList.toggle("xl-hot", +g.dataset.dev === of);
  };
  const player = makePlayer({ length: devices.length, label: "view", bin, show });
  svg.closest("figure").append(player.el);
  listen(bin, section, "click", (event) => {
    const block = event.target.closest("[data-dev]");
    const i = block ? devices.indexOf(+block.dataset.dev.split(" ")[0]) : -1;
    if (i < 0) return;
    player.stop();
    player.go(devices[i] >= 0 && block.classList.contains("xl-chosen") && few ? 0 : i, false);
  });
}

definePanel("resharding", (section, { data, bin }) => mountResharding(section, data, bin));
