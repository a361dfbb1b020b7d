import { h } from "../kit/dom.js";
import { micros } from "../kit/format.js";
import { definePanel } from "../kit/panels.js";
import { mountSaves, traceEvents, traceParts } from "./timings.js";

/** What devices did in a step: the chart zooms, an operation is chosen and chooses its equation, and what met in a collective is joined. */

const rowsOfDevice = 64;
const deviceHeight = 14;
const rowGap = 6;
const labelRoom = 84;

/** A timeline as Chrome trace events, as `observe.chrome_trace` writes them. */
export function deviceEvents(line, pid, behind) {
  const name = `devices of ${line.function}`;
  const out = [{ name: "process_name", ph: "M", pid, tid: 0, args: { name } }];
  const at = (us) => +(us + behind).toFixed(3);
  const row = (i) => line.device[i] * rowsOfDevice + line.lane[i] + 1;
  const rows = [...new Set(line.which.map((_, i) => row(i)))].sort((a, b) => a - b);
  for (const tid of rows) {
    const device = Math.floor((tid - 1) / rowsOfDevice);
    const lane = (tid - 1) % rowsOfDevice;
    out.push({ name: "thread_name", ph: "M", pid, tid, args: { name: `device ${device}${lane ? `, beside ${lane}` : ""}` } });
  }
  const meetings = new Map();
  line.which.forEach((k, i) => {
    const [instruction, kind, equation, where] = line.kinds[k];
    const common = { pid, tid: row(i) };
    out.push({ name: instruction, cat: kind, ph: "X", ts: at(line.start[i]), dur: line.time[i], ...common, args: equation >= 0 ? { equation, line: where } : {} });
    for (const [start, end] of line.waits[i] || []) out.push({ name: "wait", cat: "wait", ph: "X", ts: at(start), dur: +(end - start).toFixed(3), ...common, args: {} });
    if (line.meeting[i]) meetings.set(line.meeting[i][0], [...(meetings.get(line.meeting[i][0]) || []), i]);
  });
  for (const [number, members] of meetings) {
    const late = members.find((i) => line.device[i] === line.meeting[i][1]);
    for (const i of late === undefined ? [] : members) {
      if (i === late || line.start[i] > line.start[late] || line.start[late] > line.start[i] + line.time[i]) continue;
      const flow = { name: line.kinds[line.which[i]][0], cat: "meeting", id: number * rowsOfDevice * rowsOfDevice + line.device[i], pid, ts: at(line.start[late]) };
      out.push({ ...flow, ph: "s", tid: row(late) }, { ...flow, ph: "f", bp: "e", tid: row(i) });
    }
  }
  for (const [device, points] of line.memory) for (const [us, bytes] of points) out.push({ name: `memory of device ${device}`, ph: "C", pid, ts: at(us), args: { bytes } });
  return out;
}

traceParts.push((data, phases) => {
  const behind = +Math.max(0, ...phases.map((p) => (p.start_us || 0) + (p.duration_us || 0))).toFixed(3);
  return (data.timelines || []).flatMap((line, n) => deviceEvents(line, n + 2, behind));
});

/** @param {HTMLElement} host what holds the chart @param {any} line the columns @param {any} page */
export function mountTimeline(host, line, page) {
  const { bus, bin, programs } = page;
  const rows = new Map();
  let tall = 20;
  for (const device of line.devices) {
    const lanes = 1 + Math.max(0, ...line.lane.filter((_, i) => line.device[i] === device));
    rows.set(device, tall);
    tall += lanes * deviceHeight + rowGap;
  }
  const width = 1000;
  const room = width - labelRoom;
  let from = 0;
  let wide = line.duration || 1;
  let chosen = -1;
  const says = h("output", { class: "xl-dim" }, "drag to move, double click to come closer; an operation that is chosen shows its line");
  const svg = h("svg", { class: "xl-timeline-chart xl-tl-live", viewBox: `0 0 ${width} ${tall}`, tabindex: 0, role: "application", "aria-label": "devices over time: labelRoom and right go from operation to operation, plus and minus zoom" });
  const x = (us) => labelRoom + ((us - from) / wide) * room;
  const box = (start, end, y, high) => {
    const a = Math.max(labelRoom, x(start));
    const b = Math.min(width, x(end));
    return b < labelRoom || a > width ? "" : `M${a.toFixed(1)} ${y}h${Math.max(0.6, b - a).toFixed(1)}v${high}h-${Math.max(0.6, b - a).toFixed(1)}z`;
  };
  const keyOf = (i) => `${line.program}:${line.kinds[line.which[i]][2]}`;
  const high = (i) => rows.get(line.device[i]) + line.lane[i] * deviceHeight;
  const end = (i) => line.start[i] + line.time[i];
  const words = (i) => {
    const [name, , , where] = line.kinds[line.which[i]];
    const waited = (line.waits[i] || []).reduce((sum, [a, b]) => sum + b - a, 0);
    const met = line.meeting[i];
    return `device ${line.device[i]}   ${name}   ${micros(line.time[i])} from ${micros(line.start[i])}${waited ? `, ${micros(waited)} of it waiting${met && met[1] !== line.device[i] ? ` for device ${met[1]}, which came last` : ""}` : ""}${where ? `   ${where}` : ""}`;
  };

  function draw() {
    const d = { compute: "", collective: "", wait: "", loop: "", lit: "" };
    const keys = new Set(bus.keys);
    const marks = [];
    line.which.forEach((k, i) => {
      if (!rows.has(line.device[i]) || end(i) < from || line.start[i] > from + wide) return;
      const kind = line.kinds[k][1];
      const y = high(i);
      if (kind === "loop") {
        d.loop += box(line.start[i], end(i), y - 1.5, deviceHeight + 3);
        return;
      }
      d[kind] += box(line.start[i], end(i), y + 1, deviceHeight - 2);
      for (const [a, b] of line.waits[i] || []) d.wait += box(a, b, y + 4, deviceHeight - 8);
      if (i === chosen || keys.has(keyOf(i))) d.lit += box(line.start[i], end(i), y, deviceHeight);
    });
    const met = chosen >= 0 && line.meeting[chosen];
    if (met) {
      const all = line.which.map((_, i) => i).filter((i) => line.meeting[i] && line.meeting[i][0] === met[0] && rows.has(line.device[i]));
      const late = all.find((i) => line.device[i] === met[1]);
      for (const i of all) if (late !== undefined && i !== late) marks.push(`M${x(line.start[late]).toFixed(1)} ${high(late) + deviceHeight / 2}L${x(Math.max(line.start[i], line.start[late])).toFixed(1)} ${high(i) + deviceHeight / 2}`);
    }
    const raw = wide / 7;
    const base = 10 ** Math.floor(Math.log10(raw));
    const step = base * [1, 2, 5, 10].find((m) => m * base >= raw);
    const ticks = [];
    for (let n = Math.ceil(from / step) * step; n < from + 0.95 * wide; n += step) ticks.push(h("line", { x1: x(n), x2: x(n), y1: 14, y2: tall, class: "xl-time-rule" }), h("text", { x: x(n), y: 11, class: "xl-axis" }, n ? micros(n).replace(/\.0+ /, " ") : "0"));
    svg.replaceChildren(...ticks, ...[...rows].map(([device, y]) => h("text", { x: labelRoom - 6, y: y + 11, class: "xl-axis xl-end" }, `device ${device}`)),
      ...["compute", "collective", "wait", "loop", "lit"].filter((name) => d[name]).map((name) => h("path", { class: `xl-tl-${name}`, d: d[name] })), marks.length ? h("path", { class: "xl-tl-meet", d: marks.join("") }) : "");
  }
  const place = (event) => {
    const at = svg.getBoundingClientRect();
    const scale = width / (at.width || 1);
    return [from + (((event.clientX - at.left) * scale - labelRoom) / room) * wide, (event.clientY - at.top) * scale];
  };
  const hit = (event) => {
    const [us, y] = place(event);
    const slack = (3 / room) * wide;
    let best = -1;
    line.which.forEach((k, i) => {
      if (line.kinds[k][1] === "loop" || !rows.has(line.device[i]) || y < high(i) || y > high(i) + deviceHeight) return;
      if (us >= line.start[i] - slack && us <= end(i) + slack && (best < 0 || line.time[i] < line.time[best])) best = i;
    });
    return best;
  };
  const show = (low, more) => {
    wide = Math.max(line.duration / 5000, Math.min(line.duration || 1, more));
    from = Math.max(0, Math.min((line.duration || 1) - wide, low));
    draw();
  };
  const zoom = (factor, at = chosen >= 0 ? line.start[chosen] : from + wide / 2) => show(at - (at - from) * factor, wide * factor);
  function choose(i) {
    chosen = i;
    says.textContent = i < 0 ? "" : words(i);
    if (i >= 0 && (line.start[i] < from || end(i) > from + wide)) from = Math.max(0, line.start[i] - wide / 4);
    if (i >= 0 && line.kinds[line.which[i]][2] >= 0 && programs.length) bus.select([keyOf(i)], svg);
    else draw();
  }
  let held = null;
  const heard = { pointerdown: (event) => {
    held = { x: event.clientX, from, moved: false };
    svg.setPointerCapture?.(event.pointerId);
  }, pointermove: (event) => {
    if (held) {
      const by = event.clientX - held.x;
      held.moved ||= Math.abs(by) > 4;
      if (held.moved) show(held.from - (by / (svg.getBoundingClientRect().width || 1)) * (width / room) * wide, wide);
    } else {
      const i = hit(event);
      if (i >= 0) says.textContent = words(i);
    }
  }, pointerup: (event) => {
    if (held && !held.moved) choose(hit(event));
    held = null;
  }, dblclick: (event) => zoom(0.4, place(event)[0]) };
  for (const name in heard) svg.addEventListener(name, heard[name]);
  bus.on((keys, source) => {
    if (source !== svg && chosen >= 0 && !keys.includes(keyOf(chosen))) chosen = -1;
    draw();
  });
  const button = (word, title, run) => h("button", { type: "button", title, "aria-label": title, click: run }, word);
  const bar = h("div", { class: "xl-tl-bar", role: "toolbar", "aria-label": "timeline" }, button("+", "come closer", () => zoom(0.5)), button("−", "go farther away", () => zoom(2)), button("all", "the whole step", () => show(0, line.duration)), says);
  host.replaceChildren(svg);
  host.before(bar);
  draw();
  return {
    key(name) {
      if (name === "+" || name === "-") zoom(name === "+" ? 0.5 : 2);
      else if (name === "ArrowRight" || name === "ArrowLeft") {
        const device = chosen >= 0 ? line.device[chosen] : line.devices[0];
        const own = line.which.map((_, i) => i).filter((i) => line.device[i] === device && line.kinds[line.which[i]][1] !== "loop");
        choose(own[Math.max(0, Math.min(own.length - 1, chosen < 0 ? 0 : own.indexOf(chosen) + (name === "ArrowRight" ? 1 : -1)))] ?? -1);
      } else if (name === "ArrowUp" || name === "ArrowDown") {
        const at = line.devices.indexOf(chosen >= 0 ? line.device[chosen] : line.devices[0]) + (name === "ArrowDown" ? 1 : -1);
        const when = chosen >= 0 ? line.start[chosen] : 0;
        const own = line.which.map((_, i) => i).filter((i) => line.device[i] === line.devices[at] && line.kinds[line.which[i]][1] !== "loop");
        if (own.length) choose(own.reduce((best, i) => (Math.abs(line.start[i] - when) < Math.abs(line.start[best] - when) ? i : best)));
      } else return false;
      return true;
    },
  };
}

definePanel("timeline", (section, page) => {
  const { data, model, bin, say } = page;
  const hosts = [...section.querySelectorAll(".xl-tl-host")];
  const parts = hosts.map((host, n) => mountTimeline(host, data.timelines[n], page));
  mountSaves(section, { title: data.title, figure: "timeline", model: null, bin, say, files: {
    "Chrome trace (Perfetto)": ["trace.json", () => JSON.stringify(traceEvents(data.title, data.timings?.phases || [], data.timings?.timings || [], data))],
  } });
  return parts[0];
});
