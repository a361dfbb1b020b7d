import { h, listen, still } from "../kit/dom.js";
import { bytes } from "../kit/format.js";
import { makePlayer } from "./player.js";
import { definePanel } from "../kit/panels.js";
import { deviceAt, meshPlaces, meshSize } from "./mesh.js";
import { arrowNode, curve, showArrows, takenBy } from "./dataflow.js";

/** A collective step by step: arrows of a step, and what every device holds after it; what the step wrote is marked. */

/** Two halves of an arrow with a token between them: what one side sends, another receives. */
function halves(a, b, size, half) {
  const { s, c, e } = curve(a, b, half);
  const at = (t) => [0, 1].map((k) => (1 - t) ** 2 * s[k] + 2 * t * (1 - t) * c[k] + t * t * e[k]);
  const [near, mid, far] = [at(0.42), at(0.5), at(0.58)];
  const back = Math.atan2(e[1] - c[1], e[0] - c[0]);
  const tip = [0.45, -0.45].map((t) => `L${e[0] - 7 * Math.cos(back + t)} ${e[1] - 7 * Math.sin(back + t)}`);
  return h("g", { class: "xl-arrow", "data-tip": `psend and precv: ${bytes(size)}` },
    h("path", { d: `M${s}Q${at(0.21)} ${near}` }), h("path", { class: "xl-token", d: `M${near}L${far}` }), h("circle", { class: "xl-token-dot", cx: mid[0], cy: mid[1], r: 3 }),
    h("path", { d: `M${far}Q${at(0.79)} ${e}` }), h("path", { class: "xl-tip", d: `M${e}${tip.join("")}Z` }));
}

/** The messages of one step, those between the same two devices together. */
export function messagesOf(events, step) {
  const links = new Map();
  for (const [at, src, dst, size, adds] of events) {
    if (at !== step || src < 0 || src === dst) continue;
    const found = links.get(`${src} ${dst}`) || { src, dst, size: 0, adds };
    found.size += size;
    links.set(`${src} ${dst}`, found);
  }
  return [...links.values()];
}

definePanel("replay", (section, { data, bin }) => {
  const stage = section.querySelector(".xl-replay-stage");
  if (!stage || !data.steps?.length) return;
  const [wide, tall] = data.size;
  const places = meshPlaces(data.mesh, wide, tall, data.gaps);
  const position = new Map(Array.from({ length: meshSize(data.mesh) }, (_, i) => [deviceAt(data.mesh, i), i]));
  const center = (device) => places.centers[position.get(device)];
  const arrows = h("g", { class: "xl-arrows" });
  const svg = h("svg", { viewBox: `0 -16 ${places.width} ${places.height + 8}`, width: places.width, height: places.height + 8, role: "img", style: `--hue:${data.hue}` }, arrows, places.labels);
  const contents = data.devices.map((device) => {
    const [x, y] = center(device);
    const node = h("g", {});
    svg.append(h("g", { class: "xl-dev", "data-dev": device, "data-tip": `device ${device}` },
      h("rect", { x: x - wide / 2, y: y - tall / 2, width: wide, height: tall, rx: 3, class: "xl-cell" }),
      h("text", { x, y: y - tall / 2 + 13, class: "xl-cell-label" }, device), node));
    return node;
  });
  const line = h("p", { class: "xl-dim", "aria-live": "polite" });
  const nobody = new Set(data.events.filter(([, src]) => src < 0).map(([, , dst]) => dst));
  const [cellWide, cellTall] = data.cell;

  const most = Math.floor(cellWide / 6.3);
  const entry = (word) => (word.length > most ? [`${word.slice(0, most - 1)}…`, h("title", {}, word)] : [word]);

  function drawTiles(frame) {
    data.devices.forEach((device, k) => {
      const [x, y] = center(device);
      const entries = data.tiles[frame]?.[k];
      if (!entries) {
        contents[k].replaceChildren(...(nobody.has(device) && frame === data.steps.length ? [h("text", { x, y: y + 14, class: "xl-entry" }, "0")] : []));
        return;
      }
      const columns = data.columns[frame];
      const left = x - (columns * cellWide) / 2;
      const top = y - tall / 2 + 20;
      const written = new Set(data.written[frame]?.[k] || []);
      contents[k].replaceChildren(...entries.flatMap((word, i) => {
        const [cx, cy] = [left + (i % columns) * cellWide, top + Math.floor(i / columns) * cellTall];
        return [written.has(i) ? h("rect", { x: cx + 0.5, y: cy + 0.5, width: cellWide - 1, height: cellTall - 1, class: "xl-written" }) : null,
          h("text", { x: cx + cellWide / 2, y: cy + cellTall * 0.75, class: "xl-entry" }, ...entry(word))].filter(Boolean);
      }));
    });
  }

  function show(i) {
    const step = data.steps[i];
    const messages = messagesOf(data.events, step);
    const largest = Math.max(1, ...messages.map((m) => m.size));
    const half = [wide / 2 + 1, tall / 2 + 1];
    const taken = takenBy(data.devices.map(center), half);
    showArrows(arrows, messages.map((m) => (data.oneSided ? halves(center(m.src), center(m.dst), m.size, half) : arrowNode(center(m.src), center(m.dst), m.size, largest, taken, half))));
    const sum = messages.reduce((a, m) => a + m.size, 0);
    line.textContent = messages.length ? `${messages.length} link${messages.length > 1 ? "s" : ""} used, ${bytes(sum)}${messages.some((m) => m.adds) ? "; what arrives is added" : ""}` : i === 0 ? "each device takes what it has" : "each device keeps what is its own";
    drawTiles(i + 1);
  }
  stage.replaceChildren(svg, h("div", { class: "xl-about" }));
  const player = makePlayer({ length: data.steps.length, label: "step", bin, pace: still() ? 1400 : 900, show, name: (i) => `step ${i + 1} of ${data.steps.length}` });
  stage.lastChild.append(player.el, line);
  const blocks = section.querySelector(".xl-exchange");
  if (blocks) {
    blocks.classList.add("xl-moves");
    const turn = h("button", { type: "button", "aria-pressed": "false", click: () => turn.setAttribute("aria-pressed", String(blocks.classList.toggle("xl-turned"))) }, "exchange the blocks");
    blocks.after(h("div", {}, turn));
  }
  listen(bin, section, "keydown", (event) => {
    if (event.target.closest("input, button")) return;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") player.stop();
  });
});
