import { h, listen } from "../kit/dom.js";
import { bytes } from "../kit/format.js";
import { makePlayer } from "../kit/player.js";

/** The collectives table sorts and filters; the chosen one plays on the mesh, round by round. */

const hues = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

/** The curve of one message between two device centres; Python draws the same for the first round. */
export function curve([x1, y1], [x2, y2]) {
  const d = Math.hypot(x2 - x1, y2 - y1) || 1;
  const bend = d < 160 ? 14 : Math.min(60, d / 4);
  const n = [(y1 - y2) / d, (x2 - x1) / d];
  const c = [(x1 + x2) / 2 + n[0] * bend, (y1 + y2) / 2 + n[1] * bend];
  const edge = (x, y) => {
    const dx = c[0] - x;
    const dy = c[1] - y;
    const k = Math.min(dx ? 23 / Math.abs(dx) : Infinity, dy ? 18 / Math.abs(dy) : Infinity);
    return k < Infinity ? [x + dx * k, y + dy * k] : [x, y];
  };
  return { s: edge(x1, y1), c, e: edge(x2, y2), n };
}

/** One message as a curve with its bytes. */
export function arrowNode(a, b, size, largest) {
  const { s, c, e, n } = curve(a, b);
  const thick = 1.2 + (4.8 * size) / largest;
  const back = Math.atan2(e[1] - c[1], e[0] - c[0]);
  const tip = [0.45, -0.45].map((t) => `L${e[0] - (5 + thick) * Math.cos(back + t)} ${e[1] - (5 + thick) * Math.sin(back + t)}`);
  return h("g", { class: "xl-arrow", "data-tip": bytes(size) },
    h("path", { d: `M${s}Q${c} ${e}`, style: `stroke-width:${thick.toFixed(1)}` }),
    h("path", { class: "xl-tip", d: `M${e}${tip.join("")}Z` }),
    h("text", { class: "xl-bytes", x: (s[0] + 2 * c[0] + e[0]) / 4 + n[0] * 26, y: (s[1] + 2 * c[1] + e[1]) / 4 + n[1] * 9 + 3 }, bytes(size)));
}

/** @param {HTMLElement} section @param {any[]} transfers */
export function mountDataflow(section, transfers, bus, bin) {
  const stage = section.querySelector(".xl-stage");
  const body = section.querySelector(".xl-transfers tbody");
  if (!body) return;
  const rows = [...body.querySelectorAll("tr[data-row]")];
  if (stage) mountStage(stage, section, transfers, bus, bin);

  const options = [["all origins", ""], ["written by you", "user"], ["added by the partitioner", "partitioner"]];
  const filter = h("select", { "aria-label": "filter by origin", change: (e) => {
    for (const row of body.children) row.hidden = Boolean(e.target.value) && row.dataset.origin !== e.target.value;
  } }, options.map(([text, value]) => h("option", { value }, text)));
  if (new Set(rows.map((row) => row.dataset.origin)).size > 1) section.querySelector(".xl-scroll").before(h("div", { class: "xl-bar-top" }, filter));

  const weigh = (text) => {
    const found = /(-?[\d.]+)\s*(µs|ms|s|B|KB|MB|GB|TB)?/.exec(text.split("→").pop());
    const unit = { µs: 1, ms: 1e3, s: 1e6, B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };
    return found ? +found[1] * (unit[found[2]] || 1) : -1;
  };
  section.querySelectorAll(".xl-transfers th").forEach((head, k) => {
    let down = true;
    const sort = () => {
      const numeric = head.classList.contains("n");
      const value = (row) => (numeric ? weigh(row.children[k].textContent) : row.children[k].textContent);
      const sorted = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (numeric && down ? -1 : 1) * (!numeric && !down ? -1 : 1));
      down = !down;
      for (const row of sorted) {
        const reason = body.querySelector(`tr[data-of="${row.dataset.row}"]`);
        body.append(row);
        if (reason) body.append(reason);
      }
    };
    head.tabIndex = 0;
    head.title = "sort";
    listen(bin, head, "click", sort);
    listen(bin, head, "keydown", (e) => e.key === "Enter" && sort());
  });
}

function mountStage(stage, section, transfers, bus, bin) {
  const svg = stage.querySelector("svg");
  const arrows = svg.querySelector(".xl-arrows");
  const words = stage.querySelector(".xl-about p");
  const places = new Map([...svg.querySelectorAll(".xl-dev")].map((g) => [+g.dataset.dev, [+g.dataset.x, +g.dataset.y]]));
  let local = [];
  let moving = 0;
  const tidy = () => {
    cancelAnimationFrame(moving);
    for (const run of local) run();
    local = [];
  };
  bin.push(tidy);

  function draw(transfer, round, animate) {
    cancelAnimationFrame(moving);
    const messages = (transfer.rounds[round] || []).filter(([a, b]) => a !== b && places.has(a) && places.has(b));
    const largest = Math.max(1, ...transfer.rounds.flat().map((m) => m[2]));
    arrows.replaceChildren(...messages.map(([a, b, n]) => arrowNode(places.get(a), places.get(b), n, largest)));
    if (!animate || messages.length > 400) return;
    const blocks = messages.map(([a, b]) => {
      const path = curve(places.get(a), places.get(b));
      const node = h("rect", { class: "xl-parcel", width: 9, height: 9, x: -4.5, y: -4.5 });
      arrows.append(node);
      return [node, path];
    });
    const begin = performance.now();
    const step = (now) => {
      const t = Math.min(1, (now - begin) / 400);
      const u = t * (2 - t);
      for (const [node, { s, c, e }] of blocks) {
        const at = [0, 1].map((i) => (1 - u) ** 2 * s[i] + 2 * u * (1 - u) * c[i] + u * u * e[i]);
        node.setAttribute("transform", `translate(${at})`);
      }
      if (t < 1) moving = requestAnimationFrame(step);
      else for (const [node] of blocks) node.remove();
    };
    moving = requestAnimationFrame(step);
  }

  function choose(i) {
    tidy();
    const transfer = transfers[i];
    svg.style.setProperty("--hue", hues[transfer.hue % 6]);
    stage.querySelector("h3").textContent = `${transfer.name} over ${transfer.over}`;
    words.textContent = transfer.what + (transfer.formula ? `\nt = ${transfer.formula}` : "");
    svg.setAttribute("aria-label", `${transfer.name} on the mesh, ${transfer.what}`);
    const player = makePlayer({ length: Math.max(1, transfer.rounds.length), label: "round", bin: local, show: (r, animate) => draw(transfer, r, animate) });
    stage.querySelector(".xl-player")?.remove();
    stage.querySelector(".xl-about").append(player.el);
    for (const row of section.querySelectorAll("tr[data-row]")) row.classList.toggle("xl-chosen", +row.dataset.row === i);
  }
  listen(bin, section, "click", (event) => {
    const row = event.target.closest("tr[data-row]");
    if (!row) return;
    const i = +row.dataset.row;
    choose(i);
    if (transfers[i].key) bus.select([transfers[i].key], section);
  });
  bus.on((keys, from) => {
    const i = from === section ? -1 : transfers.findIndex((t) => t.key && t.key === keys[0]);
    if (i >= 0) choose(i);
  });
  choose(+stage.dataset.transfer);
}
