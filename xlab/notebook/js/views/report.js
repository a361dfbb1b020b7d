import { asker } from "../kit/ask.js";
import { build, h, listen } from "../kit/dom.js";
import { followTheme } from "./host.js";
import { swell } from "./swell.js";
import { lightElements, makeBus } from "../kit/bus.js";
import { foldTables } from "../kit/calls.js";
import { letMark } from "../kit/marking.js";
import { mountOf } from "../kit/panels.js";
import { usual } from "../kit/usual.js";
import { watched } from "./presence.js";
import { describe, readProgram } from "./program.js";
import { linkDevices } from "./mesh.js";

/** A report comes alive: panels become tabs, one selection joins them, keys work. The picture is already there. */

let hatches = 0;

/** The pattern of a view is its own: another view's may be hidden, and then nothing has it. */
const hatch = (id) => ["svg", { width: 0, height: 0, class: "xl-defs" }, ["defs", {}, ["pattern", { id, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  ["rect", { width: 5, height: 5, class: "xl-hatch-back" }], ["rect", { width: 1.5, height: 5, class: "xl-hatch-line" }]]]];

/** Draw a view into a widget's element; returns what cleans it up. */
export function render({ model, el }) {
  const payload = model.get("payload");
  const root = build(payload.tree);
  const pattern = `xl-hatch-${hatches += 1}`;
  const signs = build(hatch(pattern));
  root.style.setProperty("--xl-hatch", `url(#${pattern})`);
  el.append(signs, root);
  const bin = [() => root.remove(), () => signs.remove()];
  let over = false;
  const begin = (data) => over || bin.push(enliven(root, data, model));
  watched(model, el, bin);
  if (payload.packed) unpack(payload.packed).then(begin, (error) => root.append(h("p", { class: "xl-error" }, `✕ this view failed: ${error.message}`)));
  else begin(payload.data);
  return () => {
    over = true;
    for (const run of bin) run();
  };
}

/** JSON from base64 of what deflate leaves of it behind the usual text, which goes in front as a block that is not compressed. */
async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const size = usual.length;
  const block = Uint8Array.of(0, size & 255, size >> 8, ~size & 255, (~size >> 8) & 255);
  const stream = new Blob([block, usual, packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return swell(JSON.parse((await new Response(stream).text()).slice(size)));
}

/** The classes of a saved picture have their names again: a letter and a digit are a number, by which the style sheet names them. */
export function nameClasses(root, sheet) {
  const names = [...new Set(sheet.match(/(?<=\.)xl-[\w-]+/g))];
  for (const node of root.querySelectorAll("[class]")) {
    const called = node.getAttribute("class");
    const whole = called.replace(/(?<!\S)([A-Z])([0-9a-z])(?!\S)/g, (_, letter, digit) => names[(letter.charCodeAt(0) - 65) * 36 + parseInt(digit, 36)]);
    if (whole !== called) node.setAttribute("class", whole);
  }
}

/** A saved page: picture and data stand in the page. */
export async function start() {
  const root = document.querySelector(".xl-report");
  if (!document.querySelector("pattern")) root.before(build(hatch("xl-hatch"))); // a picture that hatches nothing is saved without it
  for (const style of document.body.querySelectorAll("style:not([type])")) style.remove(); // what it has where it is alone
  nameClasses(document, document.head.querySelector("style").textContent);
  enliven(root, await unpack(document.getElementById("xl-data").textContent), null);
  fitFrame(root);
}

/** The frame of a saved picture is as tall as what is in it, whichever tab is open; a page that lets us reach nothing is told how tall. */
function fitFrame(root) {
  try {
    const frame = window.frameElement;
    if (!frame && parent === window) return;
    const fit = () => {
      const tall = Math.min(1000, Math.ceil(root.getBoundingClientRect().height)); // what is taller scrolls in itself
      if (frame) frame.style.height = `${tall}px`;
      else parent.postMessage({ xlabHeight: tall }, "*");
    };
    fit();
    new ResizeObserver(fit).observe(root);
  } catch {
    root.dataset.frame = "foreign";
  }
}

/** @param {HTMLElement} root the picture @param {any} data @param {any} model the widget, or null in a saved page */
export function enliven(root, data, model) {
  const bin = [];
  const bus = makeBus();
  // The program of a stepper stands beside its steps; without scripts it has a place of its own.
  const beside = (p) => p.dataset.tab === "program" && data.steps && !data.programs?.length;
  for (const p of root.querySelectorAll(".xl-panel")) if (beside(p)) p.remove();
  const panels = [...root.querySelectorAll(".xl-panel")];
  const programs = (data.programs || []).map(readProgram);
  const started = new Set();
  const tabs = new Map();
  root.classList.add("xl-live");
  followTheme(root, bin);
  letMark(root, bin);
  const programOf = (key) => programs.find((p) => key?.startsWith(`${p.index}:`));
  lightElements(root, bus, (key) => programOf(key)?.data.name, (lit) => {
    for (const [name, tab] of tabs) tab.classList.toggle("xl-has", lit.some((node) => node.closest(".xl-panel")?.dataset.tab === name));
  });

  const status = h("div", { class: "xl-status", role: "status", "aria-live": "polite" });
  const words = () => {
    const program = programOf(bus.keys[0]);
    const id = program ? program.id(bus.keys[0]) : -1;
    const more = bus.keys.length > 1 ? `   and ${bus.keys.length - 1} more` : "";
    return program && bus.call ? program.describeCall(bus.call) : program ? describe(program, id) + more : programs.length ? "Choose a line, block, collective or bar.   ← → ↓ ↑ step   / find   Esc clears" : "";
  };
  const say = (text) => {
    status.textContent = text || words();
    status.hidden = !panels.length;
  };
  bus.on(() => say(""));
  root.append(status);
  say("");

  let current = "";
  const parts = new Map();

  function failing(section, run) {
    try {
      return run();
    } catch (error) {
      section.append(h("p", { class: "xl-error" }, `✕ this view failed: ${error.message}`));
      return null;
    }
  }
  function begin(section) {
    const name = section.dataset.tab;
    if (started.has(name)) return;
    started.add(name);
    const mount = mountOf(name);
    if (mount) parts.set(name, failing(section, () => mount(section, page)));
  }
  function open(name) {
    const section = panels.find((p) => p.dataset.tab === name);
    if (!section) return;
    const held = panels.some((p) => p !== section && p.contains(document.activeElement));
    current = name;
    for (const p of panels) p.hidden = p !== section;
    for (const [n, tab] of tabs) {
      tab.setAttribute("aria-selected", String(n === name));
      tab.tabIndex = n === name ? 0 : -1;
    }
    begin(section);
    if (held) root.focus({ preventScroll: true });
  }
  /** The open panel, or all of a picture that has none. */
  function menu() {
    return mountOf("figures")?.(root, { say, ask: asker(model, bin, 180), parts: () => {
      const section = panels.find((p) => p.dataset.tab === current);
      return { name: [data.title || "figure", current].filter(Boolean).join("_"), nodes: section ? [section] : [...root.children] };
    } }) ?? null;
  }
  const page = { data, programs, bus, bin, model, say, failing, open, part: (name) => parts.get(name) };
  if (panels.length > 1) {
    const list = h("div", { class: "xl-tabs", role: "tablist" });
    panels.forEach((p, i) => {
      const name = p.dataset.tab;
      p.setAttribute("role", "tabpanel");
      const tab = h("button", { type: "button", role: "tab", title: `${i + 1}`, click: () => open(name) }, p.getAttribute("aria-label"));
      tabs.set(name, tab);
      list.append(tab);
    });
    list.append(h("span", { class: "xl-dim xl-right" }, !model && data.title ? "saved report  " : "", menu()));
    panels[0].before(list);
  } else if (!root.closest(".xl-inline")) root.prepend(h("div", { class: "xl-figure-alone" }, menu() ?? h("span", { class: "xl-room" })));
  if (panels.length) open(panels.some((p) => p.dataset.tab === data.opens) ? data.opens : panels[0].dataset.tab);

  linkDevices(root, say, bin);
  foldTables(root, bin);
  /** Choose all that a call made, where an element stands for one. */
  const choose = (node) => {
    const { call } = node?.dataset || {};
    const made = call && programOf(call)?.callKeys(call);
    if (made?.length) bus.select(made, root, call);
    return Boolean(made?.length);
  };
  listen(bin, root, "click", (event) => {
    const link = event.target.closest("[data-go]");
    if (link) {
      event.preventDefault();
      open(link.dataset.go);
      if (!choose(link.closest("[data-call]")) && link.dataset.key) bus.select([link.dataset.key], root);
      return;
    }
    if (choose(event.target.closest("[data-call]"))) return;
    const timed = event.target.closest("[data-fn]");
    const named = timed && programs.find((p) => p.data.name === timed.dataset.fn && p.data.eqs.id.length);
    if (named) bus.select([named.key(named.data.eqs.id[0])], root);
    const found = event.target.closest("[data-eq]");
    if (found && !event.target.closest(".xl-rows") && !event.target.closest("tr[data-row]")) bus.select(found.dataset.eq.split(" "), root);
  });
  const ways = { ArrowRight: "next", ArrowLeft: "back", ArrowDown: "into", ArrowUp: "out" };
  // A saved page has the keyboard to itself; in a notebook the keys are ours only where the focus is.
  listen(bin, model ? root : document.addEventListener ? document : root, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(input|select|textarea)$/i.test(event.target.tagName);
    if (event.key === "Escape") {
      bus.select([], root);
      if (typing) event.target.blur();
    } else if (typing) return;
    else if (event.key === "/") {
      if (!parts.get(current)?.search) open("program");
      (parts.get(current)?.search ? parts.get(current) : parts.get("program")?.[0])?.search.focus();
    } else if (/^[1-9]$/.test(event.key) && panels[event.key - 1]) open(panels[event.key - 1].dataset.tab);
    else if (event.target.getAttribute?.("role") === "tab" && /Left|Right/.test(event.key)) {
      const names = [...tabs.keys()];
      const name = names[(names.indexOf(current) + (event.key === "ArrowRight" ? 1 : names.length - 1)) % names.length];
      open(name);
      tabs.get(name).focus();
    } else if (parts.get(current)?.key?.(event.key)) event.preventDefault();
    else if (current === "program" && ways[event.key] && parts.get("program")?.length) {
      const which = programs.findIndex((p) => bus.keys[0]?.startsWith(`${p.index}:`));
      parts.get("program")[Math.max(0, which)].move(ways[event.key]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  root.tabIndex = -1;
  return () => {
    for (const run of bin) run();
    root.remove();
  };
}
