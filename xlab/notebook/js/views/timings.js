import { h } from "../kit/dom.js";
import { asker } from "../kit/ask.js";
import { definePanel } from "../kit/panels.js";
import { keep } from "./program.js";

/** The waterfall is drawn already; here it gets its files: a trace for Perfetto, the records, and a figure where a kernel can draw it. */

const called = { execute: "run", cache_hit: "cache hit", cache_miss: "cache miss" };

/** A row per phase: that of the phase around it, otherwise the first that is free. */
function traceRows(phases) {
  const free = [];
  const rows = [];
  for (const p of phases) {
    const parent = p.parent ?? -1;
    if (parent >= 0 && parent < rows.length) {
      rows.push(rows[parent]);
      continue;
    }
    let row = free.findIndex((end) => end <= (p.start_us || 0));
    if (row < 0) row = free.length;
    free[row] = (p.start_us || 0) + (p.duration_us || 0);
    rows.push(row);
  }
  return rows;
}

/** What other tabs of the page add to a trace: functions of the page's data and of the phases. */
export const traceParts = [];

/** Phases as Chrome trace events, as `observe.chrome_trace` writes them. */
export function traceEvents(title, phases, timings, data = {}) {
  const rows = traceRows(phases);
  const count = rows.reduce((most, row) => Math.max(most, row), 0) + 1;
  const events = [{ name: "process_name", ph: "M", pid: 1, tid: 0, args: { name: title } }];
  for (let n = 0; n < count; n += 1) events.push({ name: "thread_name", ph: "M", pid: 1, tid: n + 1, args: { name: n ? `phases ${n + 1}` : "phases" } });
  phases.forEach((p, i) => {
    const args = { function: p.function, reason: p.reason, where: p.where, error: p.error, run: p.kind === "execute" ? (p.steady ? "steady" : "first") : "" };
    for (const name in args) if (!args[name]) delete args[name];
    const event = { name: `${called[p.kind] || p.kind} ${p.function}`.trimEnd(), cat: p.kind, ts: p.start_us || 0, pid: 1, tid: rows[i] + 1, args };
    events.push(p.duration_us > 0 ? { ...event, ph: "X", dur: p.duration_us } : { ...event, ph: "i", s: "t" });
  });
  for (const part of traceParts) events.push(...part(data, phases));
  return { traceEvents: events, displayTimeUnit: "ms", otherData: { "steady runs": timings } };
}

/** Give a panel its ⤓: what it can be saved as. `figures` names what a kernel draws. */
export function mountSaves(section, { title, files, figure, model, bin, say }) {
  const name = (title || "report").replace(/[^\w.-]+/g, "_");
  const ask = model && figure ? asker(model, bin) : null;
  const choices = new Map(Object.entries(files).map(([label, [end, make]]) => [label, () => keep(`${name}.${end}`, make(), "application/json")]));
  if (ask) choices.set("figure (matplotlib SVG)", async () => {
    try {
      const drawn = await ask("figure", { of: figure });
      keep(`${name}_${figure}.svg`, drawn.parts.join(""), "image/svg+xml");
    } catch (error) {
      say(`no figure: ${error.message}`);
    }
  });
  if (!choices.size) return;
  const list = h("select", { class: "xl-save xl-save-panel", "aria-label": `save ${figure}`, title: `save ${figure} as a file`, change: () => {
    choices.get(list.value)?.();
    list.value = "";
  } }, h("option", { value: "" }, "⤓ save"), [...choices.keys()].map((label) => h("option", { value: label }, label)));
  section.prepend(list);
}

/** Lines of the log and the bars of the phases that they are about: a click on one marks the other. */
export function linkLog(section) {
  const marked = [...section.querySelectorAll("[data-phase]")];
  for (const node of marked) node.addEventListener("click", () => {
    const same = marked.filter((other) => other.dataset.phase === node.dataset.phase);
    for (const other of marked) other.classList.toggle("xl-told", same.includes(other));
    const there = same.find((other) => other.tagName !== node.tagName);
    if (there?.tagName === "BUTTON") there.parentNode.open = true;
    there?.scrollIntoView?.({ block: "nearest" });
  });
}

/** Draw what the timings panel has beyond its picture. */
export function mountTimings(section, data, title, model, bin, say, whole = {}) {
  const { phases, timings } = data;
  linkLog(section);
  mountSaves(section, { title, figure: "timings", model, bin, say, files: {
    "Chrome trace (Perfetto)": ["trace.json", () => JSON.stringify(traceEvents(title, phases, timings, whole))],
    "JSON (records)": ["timings.json", () => JSON.stringify(data)],
  } });
}

definePanel("timings", (section, { data, model, bin, say }) => data.timings && mountTimings(section, data.timings, data.title, model, bin, say, data));
definePanel("memory", (section, { data, model, bin, say }) => data.title !== undefined && mountSaves(section, { title: data.title, figure: "memory", files: {}, model, bin, say }));
