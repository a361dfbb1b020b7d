import { build, h, listen, still } from "../kit/dom.js";
import { bytes, micros, significant } from "../kit/format.js";
import { deepOf, foldOf } from "../kit/calls.js";
import { makePlayer } from "./player.js";
import { definePanel } from "../kit/panels.js";
import { axisHues, axisShade, coordinatesOf, deviceAt, meshPlaces, meshSize } from "./mesh.js";
import { heldBefore, predictCost, roundMessages, roundsOf } from "./communication.js";

/** The collectives table sorts and filters and is priced for any interconnect; the chosen one plays on the mesh, round by round. */

const boxWide = 64;
const boxTall = 46;
const mostChunks = 16;
const mostMoving = 400;

/** The curve of one message between two device centers; Python draws the same for the first round. */
export function curve([x1, y1], [x2, y2], [halfWide, halfTall] = [23, 18]) {
  const d = Math.hypot(x2 - x1, y2 - y1) || 1;
  const bend = d < 160 ? 14 : Math.min(60, d / 4);
  const n = [(y1 - y2) / d, (x2 - x1) / d];
  const c = [(x1 + x2) / 2 + n[0] * bend, (y1 + y2) / 2 + n[1] * bend];
  const edge = (x, y) => {
    const dx = c[0] - x;
    const dy = c[1] - y;
    const k = Math.min(dx ? halfWide / Math.abs(dx) : Infinity, dy ? halfTall / Math.abs(dy) : Infinity);
    return k < Infinity ? [x + dx * k, y + dy * k] : [x, y];
  };
  return { s: edge(x1, y1), c, e: edge(x2, y2), n };
}

/** Where a curve's label stands free of what is taken, as `label_place` in Python has it; null where there is no room. */
export function labelPlace({ s, c, e, n }, text, taken) {
  const wide = 6.4 * text.length + 2;
  for (const t of [0.5, 0.34, 0.66, 0.2, 0.8]) {
    const p = [0, 1].map((k) => (1 - t) ** 2 * s[k] + 2 * t * (1 - t) * c[k] + t * t * e[k]);
    for (const side of [1, -1]) {
      const [x, y] = [p[0] + side * n[0] * 26, p[1] + side * n[1] * 9 + 3];
      const box = [x - wide / 2, y - 9, x + wide / 2, y + 3];
      if (taken.some(([left, top, right, bottom]) => box[0] < right && left < box[2] && box[1] < bottom && top < box[3])) continue;
      taken.push(box);
      return { x, y };
    }
  }
  return null;
}

/** The boxes of devices, which no label may take. */
export const takenBy = (places, [halfWide, halfTall] = [22, 17]) => places.map(([x, y]) => [x - halfWide, y - halfTall, x + halfWide, y + halfTall]);

/** One message as a curve, with its bytes where there is room. */
export function arrowNode(a, b, size, largest, taken, half) {
  const { s, c, e, n } = curve(a, b, half);
  const thick = 1.2 + (4.8 * size) / largest;
  const back = Math.atan2(e[1] - c[1], e[0] - c[0]);
  const tip = [0.45, -0.45].map((t) => `L${e[0] - (5 + thick) * Math.cos(back + t)} ${e[1] - (5 + thick) * Math.sin(back + t)}`);
  const at = labelPlace({ s, c, e, n }, bytes(size), taken);
  return h("g", { class: "xl-arrow", "data-tip": bytes(size) },
    h("path", { d: `M${s}Q${c} ${e}`, style: `stroke-width:${thick.toFixed(1)}` }),
    h("path", { class: "xl-tip", d: `M${e}${tip.join("")}Z` }),
    at ? h("text", { class: "xl-bytes", ...at }, bytes(size)) : null);
}

/** Shows messages and nothing else, their bytes in front of all of them. */
export function showArrows(group, made) {
  group.replaceChildren(...made, ...made.flatMap((node) => [...node.querySelectorAll(".xl-bytes")]));
}

/** A collective's schedule under one way of doing it: messages between devices, and what each device holds before a round. */
export function scheduleOf(t, way) {
  if (t.rounds.length) {
    return { count: t.rounds.length, messages: (r) => t.rounds[r].map(([a, b, size]) => ({ a, b, size, chunk: -1, source: a })), held: () => null, what: t.what };
  }
  if (t.stages[0] === "pairs") {
    const arrives = new Map(t.pairs.map(([a, b]) => [b, a]));
    return { count: 1, messages: () => t.pairs.filter(([a, b]) => a !== b).map(([a, b]) => ({ a, b, size: t.bytes, chunk: 0, source: a })), what: "each device sends to one other",
      held: (r, device) => [{ source: r ? arrives.get(device) ?? -1 : device, share: 1 }], chunks: 1 };
  }
  const sizes = t.sizes || [];
  const count = roundsOf(t.stages, t.n, way, sizes);
  const groups = t.groups.filter((g) => g.length > 1);
  const rank = new Map(groups.flatMap((g, k) => g.map((d, i) => [d, [k, i]])));
  const states = new Map();
  return { count, chunks: t.n, what: count ? "" : "no schedule known; the groups are drawn as rings",
    messages: (r) => groups.flatMap((g) => roundMessages(t.stages, g.length, t.bytes, way, r, sizes).map((m) => ({ a: g[m.from], b: g[m.to], size: m.size, chunk: m.chunk, source: g[m.origin] }))),
    held(r, device) {
      const at = rank.get(device);
      if (!at || t.n > mostChunks) return null;
      const group = groups[at[0]];
      const known = `${r} ${group.length}`;
      if (!states.has(known)) states.set(known, heldBefore(t.stages, group.length, way, r, sizes));
      return states.get(known)[at[1]].map((c) => ({ ...c, source: group[c.source] }));
    } };
}

/** @param {HTMLElement} section @param {any} data transfers, their mesh, and the interconnects to choose from @param {Function|null} attempt runs a suggestion */
export function mountDataflow(section, data, bus, bin, attempt) {
  const { mesh, links } = data;
  const transfers = data.transfers.map((t) => ({ stages: [], ...data.kinds[t.kind], ...t }));
  const body = section.querySelector(".xl-transfers tbody");
  if (!body) return;
  addRows(section, body, data.later);
  const rows = [...body.querySelectorAll("tr[data-row]")];
  const calls = callRows(body, rows, data.order || [], bin, () => filter());
  const reason = (row) => body.querySelector(`tr[data-of="${row.dataset.row}"]`);
  const heads = [...section.querySelectorAll(".xl-transfers th")];
  const at = (name) => heads.findIndex((th) => th.textContent === name);
  const membersOf = (lead) => rows.filter((row) => row.dataset.in === lead.dataset.row);
  const model = { way: data.way, alpha: data.alpha, beta: data.beta };
  const stage = mesh ? makeStage(section, transfers, mesh, model, bus, bin) : null;

  // What the columns are sorted by: numbers where there are numbers.
  const values = { op: (t) => t.name, over: (t) => t.over, "in → out per device": (t) => t.bytes, "× times": (t) => t.times ?? -1, predicted: (t) => t.us ?? -1,
    measured: (t) => t.measured ?? -1, wait: (t) => t.wait ?? -1, origin: (t) => t.origin, line: (t) => t.line };
  heads.forEach((head) => {
    const value = values[head.textContent];
    if (!value) return;
    let down = head.classList.contains("n");
    const sort = () => {
      calls?.show(false);
      const sign = down ? -1 : 1;
      const sorted = rows.filter((row) => !row.dataset.in).sort((a, b) => { const [x, y] = [value(transfers[+a.dataset.row]), value(transfers[+b.dataset.row])]; return (x < y ? -1 : x > y ? 1 : 0) * sign; });
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      down = !down;
      for (const row of sorted.flatMap((lead) => [lead, ...membersOf(lead)])) {
        const why = reason(row);
        body.append(row);
        if (why) body.append(why);
      }
      filter();
    };
    head.tabIndex = 0;
    head.title = "sort";
    listen(bin, head, "click", sort);
    listen(bin, head, "keydown", (e) => e.key === "Enter" && sort());
  });

  // Filters: who asked for it, and words anywhere in the row.
  let origin = "";
  let needle = "";
  const open = new Set(); // of those that are alike, the groups that are unfolded
  const hidden = h("span", { class: "xl-dim" });
  const filter = () => {
    let shown = 0;
    for (const row of rows) {
      const why = reason(row);
      const text = `${row.textContent} ${why?.textContent || ""}`.toLowerCase();
      row.hidden = Boolean((!needle && calls?.shut(row)) || (origin && row.dataset.origin !== origin) || (needle ? !text.includes(needle) : row.dataset.in && !open.has(row.dataset.in)));
      if (why) why.hidden = row.hidden;
      shown += !row.hidden || (!needle && (!origin || row.dataset.origin === origin));
    }
    calls?.light();
    hidden.textContent = shown < rows.length ? `${shown} of ${rows.length}` : "";
  };
  for (const button of body.querySelectorAll(".xl-fold")) {
    const { row } = button.closest("tr").dataset;
    const say = () => button.setAttribute("aria-expanded", String(open.has(row)));
    say();
    listen(bin, button, "click", (event) => {
      event.stopPropagation();
      if (!open.delete(row)) open.add(row);
      say();
      filter();
    });
  }
  filter();
  const bar = h("div", { class: "xl-bar-top xl-transfers-bar" });
  if (new Set(rows.map((row) => row.dataset.origin)).size > 1) {
    const options = [["all origins", ""], ["written by you", "user"], ["added by the partitioner", "partitioner"]];
    bar.append(h("select", { "aria-label": "filter by origin", change: (e) => { origin = e.target.value; filter(); } }, options.map(([text, value]) => h("option", { value }, text))));
  }
  if (rows.length > 3) bar.append(h("input", { type: "search", placeholder: "filter: op, axis, line", "aria-label": "filter collectives", input: (e) => { needle = e.target.value.trim().toLowerCase(); filter(); } }));
  if (calls) bar.append(calls.button);
  bar.append(hidden, pricing(links, model, () => price(true)));
  section.querySelector(".xl-scroll").before(bar);

  // Predictions follow the interconnect at once: rows, totals, and the formula of the one that is shown.
  function price(again) {
    const sums = new Map();
    transfers.forEach((t) => {
      const found = t.formula ? predictCost(t, model.way, model.alpha, model.beta, (x) => significant(x, true)) : { us: t.us };
      if (again) t.us = found.us;
      for (const name of [t.over, ""]) sums.set(name, (sums.get(name) || 0) + (t.us || 0) * (t.times ?? 1));
    });
    if (!again) return;
    const k = at("predicted");
    for (const row of rows) {
      const t = transfers[+row.dataset.row];
      row.children[k].textContent = t.us === null || t.us === undefined ? "?" : micros(t.us);
    }
    calls?.price(k, transfers);
    for (const row of section.querySelectorAll("tr[data-over]")) row.querySelector(".xl-predicted").textContent = micros(sums.get(row.dataset.over) || 0);
    stage?.again();
  }
  price(false);

  if (attempt) {
    for (const row of rows) {
      const t = transfers[+row.dataset.row];
      const place = t.attempt && reason(row)?.querySelector("td");
      if (place) place.append(" ", h("button", { type: "button", class: "xl-try", title: `compile with ${t.attempt.text}; nothing runs`, click: (e) => { e.stopPropagation(); attempt(t.attempt); } }, "try it"));
    }
  }
}

/** The headings of calls: they fold, follow the prices, and go where a column sorts the rows. `order` has rows, and headings as -1, -2, … */
function callRows(body, rows, order, bin, change) {
  const heads = new Map([...body.querySelectorAll("tr[data-head]")].map((row) => [+row.dataset.head, row]));
  if (!heads.size) return null;
  const byRow = new Map(rows.map((row) => [+row.dataset.row, row]));
  const within = new Map(); // the headings that a row stands under, the innermost last
  const open = [];
  for (const at of order) {
    const row = at < 0 ? heads.get(-1 - at) : byRow.get(at);
    if (!row) continue;
    while (open.length && deepOf(open.at(-1)) >= deepOf(row)) open.pop();
    within.set(row, [...open]);
    if (at < 0) open.push(row);
  }
  const whys = new Map([...body.querySelectorAll("tr[data-of]")].map((row) => [+row.dataset.of, row]));
  const arrange = () => body.append(...order.flatMap((at) => (at < 0 ? [heads.get(-1 - at)] : [byRow.get(at), whys.get(at)])).filter(Boolean));
  const folded = new Set();
  let on = true;
  const state = {
    shut: (row) => on && within.get(row)?.some((head) => folded.has(head)),
    /** Headings with nothing to see below them are not seen. */
    light() {
      const seen = new Set(rows.flatMap((row) => (row.hidden && !state.shut(row) ? [] : within.get(row) || [])));
      for (const head of heads.values()) head.hidden = !on || !seen.has(head) || within.get(head).some((outer) => folded.has(outer));
    },
    price(column, transfers) {
      for (const head of heads.values()) {
        const sum = rows.reduce((all, row) => (within.get(row)?.includes(head) ? all + (transfers[+row.dataset.row].us || 0) * (transfers[+row.dataset.row].times ?? 1) : all), 0);
        head.children[column - 1].textContent = micros(sum);
      }
    },
    show(now) {
      on = now;
      state.button.setAttribute("aria-pressed", String(on));
      body.classList.toggle("xl-flat-list", !on);
      if (on) arrange();
      change();
    },
    button: h("button", { type: "button", class: "xl-flat", title: "under the calls of the program, or in one list", "aria-pressed": "true", click: () => state.show(!on) }, "by call"),
  };
  for (const head of heads.values()) {
    foldOf(head, bin, (shut) => {
      if (shut) folded.add(head);
      else folded.delete(head);
      change();
    });
  }
  arrange(); // what the script added stands where it belongs
  return state;
}

/** Rows that a saved page leaves to its script, each with its reason: what costs less than those that are there. */
function addRows(section, body, later) {
  if (!later?.length) return;
  body.append(...later.map((tree) => build(tree)));
  section.querySelector(".xl-later")?.remove();
}

/** Interconnect, α, β and the way: presets and numbers of one's own. */
function pricing(links, model, change) {
  const same = () => links.findIndex(([, alpha, beta]) => alpha === model.alpha && beta === model.beta);
  const number = (label, unit, get, set) => {
    const field = h("input", { type: "number", min: 0, step: "any", "aria-label": label, input: () => {
      const value = Number(field.value);
      if (field.value === "" || !(value >= 0) || (unit === "GB/s" && value === 0)) return;
      set(value);
      preset.value = String(same());
      change();
    } });
    field.value = String(get());
    return [h("label", {}, label, " ", field, ` ${unit}`), field];
  };
  const [alphaNode, alpha] = number("α", "µs", () => model.alpha, (x) => (model.alpha = x));
  const [betaNode, beta] = number("β", "GB/s", () => model.beta / 1e3, (x) => (model.beta = x * 1e3));
  const preset = h("select", { "aria-label": "interconnect", change: () => {
    const chosen = links[+preset.value];
    if (!chosen) return;
    [, model.alpha, model.beta] = chosen;
    alpha.value = String(model.alpha);
    beta.value = String(model.beta / 1e3);
    change();
  } }, links.map(([name], i) => h("option", { value: i, selected: i === same() }, name)), h("option", { value: -1, selected: same() < 0 }, "your numbers"));
  const ways = [["ring", "ring"], ["bidirectional", "ring both ways"], ["shortest", "the shorter way around"], ["doubling", "halving and doubling"], ["direct", "all to all links"],
    ["pipelined", "broadcast in pieces"], ["axes", "all axes at once"], ["per_axis", "one axis after the other"]];
  const way = h("select", { "aria-label": "algorithm", change: () => { model.way = way.value; change(); } }, ways.map(([value, text]) => h("option", { value, selected: value === model.way }, text)));
  return h("span", { class: "xl-pricing", role: "group", "aria-label": "what predictions assume" }, h("span", { class: "xl-dim" }, "predict for"), preset, alphaNode, betaNode, way);
}

function makeStage(section, transfers, mesh, model, bus, bin) {
  const stage = section.querySelector(".xl-stage");
  if (!stage) return null;
  const size = meshSize(mesh);
  const places = meshPlaces(mesh, boxWide, boxTall, size > 64 ? [12, 12] : [Math.min(88, Math.max(30, 640 / mesh.sizes.at(-1) - boxWide)), 34]);
  const position = new Map(Array.from({ length: size }, (_, i) => [deviceAt(mesh, i), i]));
  const center = (device) => places.centers[position.get(device)];
  const title = h("h3", {});
  const words = h("p", { class: "xl-formula" });
  const line = h("p", { class: "xl-dim", "aria-live": "polite" });
  const legend = h("p", { class: "xl-dim" });
  const about = h("div", { class: "xl-about" }, title, words, line);
  const arrows = h("g", { class: "xl-arrows" });
  const svg = h("svg", { viewBox: `0 -16 ${places.width} ${places.height + 4}`, width: places.width, height: places.height + 4, role: "img" }, arrows, places.labels);
  const held = new Map();
  for (const [device, i] of position) {
    const [x, y] = places.centers[i];
    const cells = h("g", {});
    svg.append(h("g", { class: "xl-dev", "data-dev": device, "data-tip": `device ${device}` },
      h("rect", { x: x - boxWide / 2, y: y - boxTall / 2, width: boxWide, height: boxTall, rx: 3, class: "xl-cell" }),
      h("text", { x, y: y - 4, class: "xl-cell-label" }, device), cells));
    held.set(device, cells);
  }
  stage.replaceChildren(svg, about);
  stage.classList.toggle("xl-wide", places.width > 620);
  let local = [];
  let moving = 0;
  let chosen = -1;
  const tidy = () => {
    cancelAnimationFrame(moving);
    for (const run of local) run();
    local = [];
  };
  bin.push(tidy);

  /** The color of a device's blocks: its place along the axes that the collective runs over. */
  const shadeOf = (t, device) => {
    const coordinates = coordinatesOf(mesh, position.get(device) ?? 0);
    const k = Math.max(0, mesh.names.indexOf(t.axes[0]));
    return axisShade(k, coordinates[k], mesh.sizes[k]);
  };

  function drawHeld(t, schedule, r) {
    for (const [device, node] of held) {
      const chunks = schedule.held(r, device);
      const [x, y] = center(device);
      const wide = chunks ? (boxWide - 8) / chunks.length : 0;
      node.replaceChildren(...(chunks || []).flatMap((c, i) => {
        const left = x - boxWide / 2 + 4 + i * wide;
        const tall = 14 * c.share;
        const known = c.source >= 0 && c.share > 0;
        return [h("rect", { x: left + 0.5, y: y + 5, width: Math.max(1, wide - 1), height: 14, class: "xl-slot" }),
          known ? h("rect", { x: left + 0.5, y: y + 19 - tall, width: Math.max(1, wide - 1), height: tall, class: c.waiting ? "xl-band xl-waiting" : "xl-band", style: shadeOf(t, c.source) }) : null,
          known && wide >= 10 ? h("text", { x: left + wide / 2, y: y + 15, class: "xl-chunk" }, c.source) : null].filter(Boolean);
      }));
    }
  }

  function draw(t, schedule, r, animate) {
    cancelAnimationFrame(moving);
    const messages = r < schedule.count ? schedule.messages(r).filter((m) => m.a !== m.b && (m.size || !t.bytes) && position.has(m.a) && position.has(m.b)) : [];
    const links = new Map();
    for (const m of messages) {
      const name = `${m.a} ${m.b}`;
      const found = links.get(name) || { ...m, size: 0 };
      found.size += m.size;
      links.set(name, found);
    }
    const largest = Math.max(1, ...[...links.values()].map((m) => m.size));
    const half = [boxWide / 2 + 1, boxTall / 2 + 1];
    const taken = takenBy([...position.keys()].map(center), half);
    showArrows(arrows, [...links.values()].map((m) => arrowNode(center(m.a), center(m.b), m.size, largest, taken, half)));
    const sum = messages.reduce((a, m) => a + m.size, 0);
    line.textContent = messages.length ? `${links.size} link${links.size > 1 ? "s" : ""} used, ${bytes(largest)} on the busiest, ${bytes(sum)} in all` : schedule.count ? "done: what each device has afterwards" : schedule.what;
    drawHeld(t, schedule, r);
    if (!animate || messages.length > mostMoving) return;
    const parcels = messages.map((m) => {
      const node = h("rect", { class: "xl-parcel xl-band", width: 13, height: 11, x: -6.5, y: -5.5, style: shadeOf(t, m.source) });
      arrows.append(node);
      return [node, curve(center(m.a), center(m.b), half)];
    });
    const begin = performance.now();
    const step = (now) => {
      const part = Math.min(1, (now - begin) / 400);
      const u = part * (2 - part);
      for (const [node, { s, c, e }] of parcels) {
        const to = [0, 1].map((i) => (1 - u) ** 2 * s[i] + 2 * u * (1 - u) * c[i] + u * u * e[i]);
        node.setAttribute("transform", `translate(${to})`);
      }
      if (part < 1) moving = requestAnimationFrame(step);
      else {
        for (const [node] of parcels) node.remove();
        drawHeld(t, schedule, r + 1);
      }
    };
    moving = requestAnimationFrame(step);
  }

  function choose(i) {
    tidy();
    chosen = i;
    const t = transfers[i];
    svg.style.setProperty("--hue", axisHues[t.hue % 6]);
    title.textContent = `${t.name} over ${t.over}`;
    const schedule = scheduleOf(t, model.way);
    const cost = t.formula ? predictCost(t, model.way, model.alpha, model.beta, (x) => significant(x, true)) : null;
    words.replaceChildren();
    if (cost?.words) words.append(h("b", {}, `t = ${cost.words}`), h("br"), h("span", { class: "xl-dim" }, cost.numbers), h("br"), h("b", {}, `= ${micros(cost.us)}`), ...(t.times > 1 ? [h("span", { class: "xl-dim" }, ` × ${t.times} = ${micros(cost.us * t.times)}`)] : []));
    const rounds = schedule.count;
    svg.setAttribute("aria-label", `${t.name} on the mesh, ${rounds} rounds`);
    // One frame more than rounds: what is there at the end.
    const player = makePlayer({ length: Math.max(1, rounds + 1), label: "round", bin: local, name: (r) => (r < rounds ? `round ${r + 1} of ${rounds}` : `after ${rounds} round${rounds > 1 ? "s" : ""}`), show: (r, animate) => draw(t, schedule, r, animate && !still()) });
    stage.querySelector(".xl-player")?.remove();
    if (rounds) about.append(player.el);
    legend.textContent = !rounds || t.n > mostChunks ? "" : t.reduces ? "A cell is a piece of the array: as full as there are parts summed in it." : `A cell is a block of the array: its color${boxWide - 8 >= 10 * schedule.chunks ? " and number say" : " says"} which device it comes from.`;
    about.append(legend);
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
  return { again: () => choose(chosen) };
}

definePanel("collectives", (section, { data, bus, bin, model, open, part }) => {
  const attempt = (wanted) => {
    open("whatif");
    part("whatif")?.attempt(wanted);
  };
  mountDataflow(section, { transfers: data.transfers || [], ...data.flow }, bus, bin, model && data.whatif?.length ? attempt : null);
});
