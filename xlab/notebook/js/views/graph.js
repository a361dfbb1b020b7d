import { h, listen } from "../kit/dom.js";
import { jaxprPieces } from "./jaxpr_line.js";
import { sugiyamaLayout } from "./sugiyama.js";

/** A program as a graph on a canvas: equations as boxes, nested programs and name scopes as boxes to open. */

const crowd = 1200;
const openBelow = 60;
/** Layers that stand beside one another in an opened box; of more, so many boxes of some each. */
const mostLayers = 60;
/** Inputs or results of a level with a box of their own; more share one. */
const mostEnds = 16;

/** Whether a box starts a collective: what it makes comes later. */
const isPending = (box) => (box?.type || "").startsWith("Todo{");

/** The boxes of one level: `{label, type, key, eq, args, inner}`; `inner` makes the boxes inside, which are made when it is opened. What stands
 * under headings of calls, below the heading `under`, is one box for each; `starts` are layers by their first equations. */
function boxesOf(program, list, inputs, scope, top, starts = new Map(), under = null) {
  const { eqs } = program.data;
  const boxes = [];
  const holder = new Map();
  const put = (box, ...members) => {
    for (const k of members) holder.set(k, boxes.length);
    boxes.push(box);
  };
  const part = (k) => eqs.scope[k].split("/")[scope] || "";
  const lone = list.length && part(list[0]) && list.every((k) => part(k) === part(list[0]));
  const groupOf = (run, label, key, inner) => {
    let end = run[run.length - 1] + 1;
    while (end < eqs.id.length && program.deep(end) > program.deep(run[0])) end += 1;
    return { kind: "group", end, label, type: `${run.length.toLocaleString("en")} equations`, count: run.length, key, eqs: run, args: run.flatMap((k) => eqs.args[k]), inner };
  };
  /** Layers from the one numbered `first` on, one box each; of very many, boxes of some of them. */
  const layerBoxes = (run, length, name, first, key, below = under) => {
    const each = length * (run.length / length > mostLayers ? Math.ceil(run.length / length / mostLayers) : 1);
    const pieces = Array.from({ length: Math.ceil(run.length / each) }, (_, n) => run.slice(n * each, (n + 1) * each));
    const holder = new Map(pieces.flatMap((piece, n) => piece.map((k) => [k, n])));
    return edged(pieces.map((piece, n) => {
      const at = first + (n * each) / length;
      const last = at + piece.length / length - 1;
      return groupOf(piece, at === last ? `${name} ${at}` : `${name} ${at} … ${last}`, `${key}.${at}`,
        () => (at === last ? boxesOf(program, piece, inputs, scope, false, below ? starts : new Map(), below) : layerBoxes(piece, length, name, at, `${key}.${at}`, below)));
    }), holder);
  };
  /** The box of a call: of repeated layers one for each, else what is in it. */
  const headBox = (run, head) => {
    const [name, pass] = program.data.rows.text[head.row].split("   ");
    const [, length, times] = starts.get(run[0]) || [];
    const all = length * times === run.length;
    const one = name.split(" ▸ ").at(-1).replace(/ ×[\d,?]+$/, "");
    const box = groupOf(run, [name, pass].filter(Boolean).join(" · "), `h${head.row}.${run[0]}`, () => (all ? layerBoxes(run, length, one, 1, `h${head.row}`, head) : boxesOf(program, run, inputs, scope, false, starts, head)));
    if (all) box.type = `${length.toLocaleString("en")} equations each`;
    box.call = program.callOf(head.row);
    return box;
  };
  const heads = list.length ? program.headsIn(list[0], under) : [];
  let next = 0; // of the headings, the first that does not end before
  const headAt = (k) => {
    while (next < heads.length && heads[next].to <= k) next += 1;
    return next < heads.length && heads[next].from <= k ? heads[next] : null;
  };
  /** The layers that begin at a place of the list: whole, and not all of them below one heading. */
  const layerAt = (i, head = headAt(list[i])) => {
    const [, length, times] = starts.get(list[i]) || [];
    return length && i + length * times <= list.length && !(head && list[i + length * times - 1] < head.to) ? starts.get(list[i]) : null;
  };
  const folded = list.reduce((sum, k, i) => sum + (headAt(k) ? 1 : (layerAt(i)?.[1] ?? 0) * (layerAt(i)?.[2] ?? 0)), 0);
  next = 0;
  const size = list.length - folded > crowd * 4 ? Math.ceil((list.length - folded) / crowd) : 0;
  for (let i = 0; i < list.length; ) {
    const head = headAt(list[i]);
    const layer = layerAt(i, head);
    if (head && !layer) {
      let end = i + 1;
      while (end < list.length && list[end] < head.to) end += 1;
      const run = list.slice(i, end);
      if (head.to - head.from > 1) put(headBox(run, head), ...run);
      else put(equationBox(program, run[0], lone ? scope + 1 : scope), run[0]);
      i = end;
      continue;
    }
    if (layer) {
      const [, length, times, name] = layer;
      const run = list.slice(i, i + length * times);
      const box = groupOf(run, `${name || "layer"} ×${times}`, `l${run[0]}`, () => layerBoxes(run, length, name || "layer", 1, `l${run[0]}`));
      box.type = `${length.toLocaleString("en")} equations each`;
      put(box, ...run);
      i += run.length;
      continue;
    }
    let j = i + 1;
    const name = size || lone ? "" : part(list[i]);
    const apart = (at) => Boolean(headAt(list[at]) || layerAt(at));
    if (size) while (j < list.length && j < i + size && !apart(j)) j += 1;
    else if (name) while (j < list.length && part(list[j]) === name && !apart(j)) j += 1;
    const run = list.slice(i, j);
    if (run.length > 1) put(groupOf(run, name || `${i} … ${j - 1}`, `s${run[0]}.${scope}`, () => boxesOf(program, run, inputs, scope + (size ? 0 : 1), false)), ...run);
    else put(equationBox(program, run[0], lone ? scope + 1 : scope), run[0]);
    i = j;
  }
  // An input that one group alone uses stands in it; the others come first.
  const users = new Map();
  boxes.forEach((box, b) => {
    for (const a of box.args) if (a < -1) users.has(a) ? users.get(a).add(b) : users.set(a, new Set([b]));
  });
  if (top) for (const a of program.data.results) if (a < -1) users.set(a, new Set([-1, -2]));
  const within = ([b, ...more]) => !more.length && boxes[b].kind === "group";
  const given = [...users.keys()].filter((a) => !within(users.get(a))).sort((p, q) => q - p);
  const many = given.length > mostEnds;
  const ins = many ? [{ kind: "in", label: `${given.length.toLocaleString("en")} inputs`, type: "", args: [] }] : given.map((a) => {
    const [name, type] = inputs[-2 - a] || ["?", ""];
    return { kind: "in", label: program.shown(name), type, args: [] };
  });
  for (const [k, at] of holder) holder.set(k, at + ins.length);
  given.forEach((a, i) => holder.set(a, many ? 0 : i));
  boxes.unshift(...ins);
  const results = top ? program.data.results.map((a, i) => [a, `out ${i}`]).filter(([a]) => holder.has(a)) : [];
  if (results.length > mostEnds) boxes.push({ kind: "out", label: `${results.length.toLocaleString("en")} results`, type: "", args: results.map(([a]) => a) });
  else for (const [a, label] of results) boxes.push({ kind: "out", label, type: "", args: [a] });
  return edged(boxes, holder);
}

/** The edges among boxes: `holder` says which box makes what the k-th equation makes. */
function edged(boxes, holder) {
  const from = [];
  const to = [];
  boxes.forEach((box, b) => {
    for (const a of new Set(box.args.map((arg) => holder.get(arg)))) if (a !== undefined && a < b) { from.push(a); to.push(b); }
  });
  // What stands between a start and its wait can run while devices send.
  from.forEach((a, i) => {
    if (isPending(boxes[a])) for (const box of boxes.slice(a + 1, to[i])) if (box.kind === "eq" && !box.over && !box.label.endsWith("_done")) box.overlaps = true;
  });
  return { boxes, from, to };
}

/** The repeated layers of the program that an equation stands in, by their first equations: `[first, length, times, name]`. */
function layersOf(program, k) {
  const { eqs, layers } = program.data;
  const found = layers?.[eqs.prog[k]];
  if (!found) return new Map();
  const own = eqs.prog.flatMap((of, at) => (of === eqs.prog[k] ? [at] : []));
  return new Map(found.map((layer) => [own[layer[0]], layer]));
}

function equationBox(program, k, scope) {
  const { eqs, rows } = program.data;
  const type = /:(\S+)/.exec(eqs.outs[k])?.[1] || "";
  const made = eqs.outs[k].slice(0, Math.max(0, eqs.outs[k].indexOf(":")));
  const user = program.shown(made);
  const box = { kind: "eq", label: eqs.op[k], type, user: user !== made && user[0] !== "_" ? user : "", eqs: [k], key: `e${eqs.id[k]}`, args: eqs.args[k], over: / over /.test(` ${eqs.extra[k]}`) };
  const deep = program.deep(k);
  let end = k + 1;
  while (end < eqs.id.length && program.deep(end) > deep) end += 1;
  box.end = end;
  if (end > k + 1) {
    box.count = end - k - 1;
    box.inner = () => {
      const bodies = new Map();
      for (let i = k + 1; i < end; i += 1) if (program.deep(i) === deep + 2) bodies.has(eqs.prog[i]) ? bodies.get(eqs.prog[i]).push(i) : bodies.set(eqs.prog[i], [i]);
      const all = { boxes: [], from: [], to: [] };
      for (const list of bodies.values()) {
        let head = eqs.row[list[0]] - 1;
        while (program.head(head)) head -= 1;
        const pieces = jaxprPieces(rows.text[head], false);
        const inputs = pieces.flatMap(([kind, text], i) => (kind === "v" ? [[text, pieces[i + 2]?.[1] || ""]] : []));
        const one = boxesOf(program, list, inputs, 0, false, layersOf(program, list[0]));
        const base = all.boxes.length;
        all.boxes.push(...one.boxes);
        all.from.push(...one.from.map((i) => i + base));
        all.to.push(...one.to.map((i) => i + base));
      }
      return all;
    };
  }
  return box;
}

/** Lay out a level and what is open in it; boxes get x, y (corner), w, h relative to the level, and `made` when open. */
function place(level, open) {
  for (const box of level.boxes) {
    box.made = box.inner && open(box) ? box.made || box.inner() : null;
    if (box.made) {
      const inside = place(box.made, open);
      box.w = Math.max(inside.width + 20, box.label.length * 7 + 70);
      box.h = inside.height + 42;
    } else {
      box.w = Math.max(44, Math.max(box.label.length + (box.user ? box.user.length + 1 : 0), box.type.length * 0.87) * 7.3 + 16 + (box.inner ? 14 : 0));
      box.h = box.type ? 34 : 22;
    }
  }
  const plan = sugiyamaLayout(level.boxes.map((b) => b.w), level.boxes.map((b) => b.h), level.from, level.to);
  level.boxes.forEach((box, i) => {
    box.x = plan.x[i] - box.w / 2;
    box.y = plan.y[i];
  });
  level.plan = plan;
  return plan;
}

/** Everything to draw, in absolute places. */
function flatten(level, dx, dy, depth, out) {
  const { plan } = level;
  for (const [x1, y1, x2, y2, a, b] of plan.links) out.links.push([x1 + dx, y1 + dy, x2 + dx, y2 + dy, level.boxes[a], level.boxes[b]]);
  for (const lane of plan.lanes) out.lanes.push({ x: lane.x + dx, source: level.boxes[lane.source], from: plan.x[lane.source] + dx, top: lane.top + dy, ends: lane.targets.map(([t, y]) => [level.boxes[t], plan.x[t] + dx, y + dy]) });
  for (const box of level.boxes) {
    const item = { box, x: box.x + dx, y: box.y + dy, depth };
    out.items.push(item);
    if (box.made) flatten(box.made, item.x + 10, item.y + 30, depth + 1, out);
  }
  return out;
}

/** The graph pane of one program. */
export function makeGraph(program, bus, bin) {
  const { eqs } = program.data;
  const opened = new Map();
  const few = eqs.id.length <= openBelow;
  const inputs = program.data.inputs.map((text) => [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)]);
  const top = eqs.row.flatMap((_, k) => (program.deep(k) === 0 ? [k] : []));
  const level = boxesOf(program, top, inputs, 0, true, top.length ? layersOf(program, top[0]) : new Map());
  const canvas = h("canvas", { class: "xl-graph-canvas", role: "img" });
  const sheet = h("div", { class: "xl-graph-sheet" });
  const el = h("div", { class: "xl-graph", tabindex: "0", role: "group", "aria-label": "graph; Enter opens or closes the chosen box, plus and minus zoom" }, canvas, sheet);
  let zoom = 1;
  let size = { width: 0, height: 0 };
  let drawn = { items: [], links: [], lanes: [] };
  let wanted = [];           // equations to be marked, and how
  let chosen = new Map();    // the boxes that are
  let pending = 0;

  function lay() {
    size = place(level, (box) => opened.get(box.key) ?? few);
    drawn = flatten(level, 16, 12, 0, { items: [], links: [], lanes: [] });
    mark();
    canvas.setAttribute("aria-label", `graph of ${program.data.name}: ${drawn.items.length} boxes; the text shows the same as lines`);
    resize();
  }
  /** Marks the boxes that stand for what is wanted; the last of the chosen. */
  function mark() {
    const how = new Map(wanted);
    let first = null;
    chosen = new Map();
    for (const item of drawn.items) {
      const { box } = item;
      if (!box.eqs) continue;
      for (const [k, look] of how) {
        // A closed box stands for all that is in it.
        if (box.made ? box.kind === "group" || box.eqs[0] !== k : k < box.eqs[0] || k >= box.end) continue;
        chosen.set(box, Math.max(chosen.get(box) || 0, look));
        if (look === 2) first = item;
      }
    }
    return first;
  }
  function resize() {
    sheet.style.width = `${Math.ceil((size.width + 32) * zoom)}px`;
    sheet.style.height = `${Math.ceil((size.height + 24) * zoom)}px`;
    el.style.height = `min(${Math.max(160, Math.ceil((size.height + 24) * zoom) + 16)}px, var(--xl-tall, 520px))`;
    later();
  }
  const later = () => {
    if (!pending) pending = requestAnimationFrame(draw);
  };
  function draw() {
    pending = 0;
    const context = canvas.getContext?.("2d");
    const wide = el.clientWidth;
    const tall = el.clientHeight;
    if (!context || !wide) return;
    const dense = globalThis.devicePixelRatio || 1;
    if (canvas.width !== Math.round(wide * dense) || canvas.height !== Math.round(tall * dense)) {
      canvas.width = Math.round(wide * dense);
      canvas.height = Math.round(tall * dense);
      canvas.style.width = `${wide}px`;
      canvas.style.height = `${tall}px`;
    }
    const style = getComputedStyle(el);
    const ink = (name) => style.getPropertyValue(name).trim() || "#888";
    const scene = { fg: style.color, dim: ink("--dim"), line: ink("--line"), soft: ink("--soft"), bg: ink("--bg"), accent: ink("--accent"), sign: ink("--xl-gold"), tint: ink("--xl-green"), code: style.fontFamily };
    context.setTransform(dense * zoom, 0, 0, dense * zoom, -el.scrollLeft * dense, -el.scrollTop * dense);
    const view = { x0: el.scrollLeft / zoom, y0: el.scrollTop / zoom, x1: (el.scrollLeft + wide) / zoom, y1: (el.scrollTop + tall) / zoom };
    context.clearRect(view.x0, view.y0, wide / zoom, tall / zoom);
    paintScene(context, scene, drawn, view, chosen, zoom);
  }
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const px = (event.clientX - box.left + el.scrollLeft) / zoom;
    const py = (event.clientY - box.top + el.scrollTop) / zoom;
    for (let i = drawn.items.length - 1; i >= 0; i -= 1) {
      const { box: b, x, y } = drawn.items[i];
      if (px >= x && px <= x + b.w && py >= y && py <= y + b.h) return drawn.items[i];
    }
    return null;
  };
  const inSight = ({ x, y }) => x * zoom >= el.scrollLeft && x * zoom < el.scrollLeft + el.clientWidth && y * zoom >= el.scrollTop && y * zoom < el.scrollTop + el.clientHeight;
  /** What a person looks at: the chosen box, or what stands nearest the middle; at the beginning of the program that, so nothing. */
  function lookedAt() {
    const shown = drawn.items.filter((item) => item.box.eqs && inSight(item));
    const picked = shown.findLast((item) => chosen.get(item.box) === 2);
    if (picked || el.scrollTop < 1) return picked;
    const middle = [(el.scrollLeft + el.clientWidth / 2) / zoom, (el.scrollTop + el.clientHeight / 2) / zoom];
    const far = ({ box, x, y }) => Math.abs(x + box.w / 2 - middle[0]) + Math.abs(y - middle[1]);
    return shown.reduce((best, item) => (!best || far(item) < far(best) ? item : best), null);
  }
  /** Lays out anew, and leaves what is looked at where it is in the pane; where that is open or closed now, what is in it or holds it. */
  function layAround(item) {
    const { box, x, y } = item;
    const [left, above, lit] = [x * zoom - el.scrollLeft, y * zoom - el.scrollTop, chosen.get(box) === 2];
    lay();
    const now = (lit && drawn.items.findLast((i) => chosen.get(i.box) === 2)) || drawn.items.find((i) => i.box.key === box.key) || drawn.items.findLast((i) => i.box.eqs?.[0] <= box.eqs[0] && box.eqs[0] < i.box.end);
    el.scrollLeft = now.x * zoom - left;
    el.scrollTop = now.y * zoom - above;
  }
  const turn = (box) => {
    if (!box?.inner) return;
    const item = drawn.items.find((i) => i.box === box);
    opened.set(box.key, !box.made);
    layAround(item);
  };
  const zoomBy = (by) => {
    const middle = (el.scrollTop + el.clientHeight / 2) / zoom;
    const center = (el.scrollLeft + el.clientWidth / 2) / zoom;
    zoom = Math.max(0.08, Math.min(2, zoom * by));
    resize();
    el.scrollTop = middle * zoom - el.clientHeight / 2;
    el.scrollLeft = center * zoom - el.clientWidth / 2;
  };
  listen(bin, canvas, "click", (event) => {
    const found = at(event);
    if (found?.box.inner && event.offsetX !== undefined && found.box.made && (event.clientY - canvas.getBoundingClientRect().top + el.scrollTop) / zoom - found.y < 24) turn(found.box);
    else if (found?.box.eqs) bus.select(found.box.eqs.slice(0, 200).map((k) => program.key(eqs.id[k])), graph, found.box.call);
  });
  listen(bin, canvas, "dblclick", (event) => turn(at(event)?.box));
  listen(bin, canvas, "mousemove", (event) => {
    const found = at(event);
    canvas.style.cursor = found ? "pointer" : "default";
    canvas.title = found ? [found.box.label, found.box.type, found.box.inner ? (found.box.made ? "click its title to close" : "double-click to open") : ""].filter(Boolean).join("\n") : "";
  });
  listen(bin, el, "scroll", later, { passive: true });
  listen(bin, el, "wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoomBy(event.deltaY < 0 ? 1.15 : 1 / 1.15);
  }, { passive: false });
  listen(bin, el, "keydown", (event) => {
    if (event.key === "Enter") turn(drawn.items.find((i) => chosen.get(i.box) === 2)?.box);
    else if (event.key === "+" || event.key === "=") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  bin.push(() => cancelAnimationFrame(pending));
  if (typeof ResizeObserver === "function") {
    const watch = new ResizeObserver(later);
    watch.observe(el);
    bin.push(() => watch.disconnect());
  }
  const graph = {
    el, zoomBy, lay, later,
    /** As wide as the pane, but no smaller than `least`. */
    fit(least = 0.08) {
      zoomBy(Math.min(1, Math.max(least, (el.clientWidth - 20) / (size.width + 32))) / zoom);
      if (least >= 0.1) graph.begin();
    },
    /** Where it is wider than the pane, begin at what the program begins with. */
    begin() {
      const first = drawn.items.filter((item) => item.y <= 12);
      const middle = first.reduce((sum, item) => sum + item.x + item.box.w / 2, 0) / Math.max(1, first.length);
      el.scrollTop = 0;
      el.scrollLeft = Math.max(0, middle * zoom - el.clientWidth / 2);
      later();
    },
    openAll(on) {
      const visit = (lv) => lv.boxes.forEach((box) => {
        if (!box.inner) return;
        opened.set(box.key, on);
        if (on && box.count < 5000) visit(box.made || (box.made = box.inner()));
      });
      visit(level);
      const item = lookedAt();
      if (item) return layAround(item);
      lay();
      graph.begin();
    },
    /** Mark the boxes of these equations: 2 the chosen, 1 linked. */
    light(ids, near, from) {
      wanted = [...near.map((id) => [id, 1]), ...ids.map((id, i) => [id, i ? 1 : 2])].map(([id, how]) => [program.at.get(id), how]);
      const first = mark();
      if (first && from !== graph && el.clientHeight) {
        const y = first.y * zoom;
        const x = first.x * zoom;
        if (y < el.scrollTop || y > el.scrollTop + el.clientHeight - 40) el.scrollTop = Math.max(0, y - el.clientHeight / 3);
        if (x < el.scrollLeft || x > el.scrollLeft + el.clientWidth - 60) el.scrollLeft = Math.max(0, x - el.clientWidth / 3);
      }
      later();
    },
    svg: () => svgOf(drawn, size),
  };
  lay();
  return graph;
}

function paintScene(context, scene, drawn, view, chosen, zoom) {
  const inside = (x0, y0, x1, y1) => x1 >= view.x0 && x0 <= view.x1 && y1 >= view.y0 && y0 <= view.y1;
  const closed = drawn.items.filter(({ box, x, y }) => inside(x, y, x + box.w, y + box.h));
  for (const { box, x, y, depth } of closed) {
    if (!box.made) continue;
    context.globalAlpha = 0.7;
    context.fillStyle = depth % 2 ? scene.bg : scene.soft;
    roundBox(context, x, y, box.w, box.h, 6);
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = chosen.get(box) ? scene.accent : scene.line;
    context.lineWidth = chosen.get(box) === 2 ? 2 : 1;
    context.stroke();
  }
  const hot = (a, b) => chosen.get(a) === 2 || (!!b && chosen.get(b) === 2);
  for (const look of ["plain", "pending", "hot"]) {
    const strong = look === "hot";
    const waits = look === "pending";
    context.strokeStyle = strong ? scene.accent : waits ? scene.sign : scene.dim;
    context.globalAlpha = strong || waits ? 1 : 0.45;
    context.lineWidth = strong ? 1.6 : 1;
    context.setLineDash(waits ? [5, 4] : []);
    context.beginPath();
    for (const [x1, y1, x2, y2, a, b] of drawn.links) {
      if (hot(a, b) !== strong || (!strong && isPending(a) !== waits)) continue;
      if (!inside(Math.min(x1, x2), y1, Math.max(x1, x2), y2)) continue;
      context.moveTo(x1, y1);
      const turn = Math.max(y1, y2 - 26);
      if (turn > y1) context.lineTo(x1, turn);
      context.bezierCurveTo(x1, turn + 14, x2, y2 - 14, x2, y2);
    }
    context.stroke();
    context.globalAlpha = strong || waits ? 1 : 0.28;
    context.beginPath();
    for (const lane of drawn.lanes) {
      if (!strong && isPending(lane.source) !== waits) continue;
      // One trunk for all that leaves the source this way, one branch for each that it reaches.
      const on = chosen.get(lane.source) === 2;
      const ends = lane.ends.filter(([box]) => (on || chosen.get(box) === 2) === strong);
      if (!ends.length) continue;
      const low = ends.reduce((most, end) => Math.max(most, end[2]), 0);
      if (!inside(Math.min(lane.from, ...ends.map((end) => end[1])), lane.top, lane.x, low)) continue;
      context.moveTo(lane.from, lane.top);
      context.bezierCurveTo(lane.from, lane.top + 14, lane.x, lane.top + 2, lane.x, lane.top + 22);
      context.lineTo(lane.x, Math.max(lane.top + 22, low - 22));
      for (const [, x, y] of ends) {
        if (y < view.y0 || y - 24 > view.y1) continue;
        context.moveTo(lane.x, Math.max(lane.top + 22, y - 22));
        context.bezierCurveTo(lane.x, y - 2, x, y - 14, x, y);
      }
    }
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
  context.textBaseline = "middle";
  if (zoom >= 0.3) {
    context.font = `10.5px ${scene.code}`;
    context.fillStyle = scene.sign;
    for (const [x, y] of pendingMarks(drawn)) if (inside(x, y, x, y)) context.fillText("T", x, y);
  }
  for (const { box, x, y } of closed) {
    if (!box.made) {
      const mark = chosen.get(box);
      // Too small for words: a box is a mark of its own.
      context.fillStyle = zoom < 0.3 ? scene.dim : scene.bg;
      roundBox(context, x, y, box.w, box.h, box.kind === "eq" || box.kind === "group" ? 4 : 11);
      context.fill();
      if (box.overlaps) {
        context.globalAlpha = 0.18;
        context.fillStyle = scene.tint;
        context.fill();
        context.globalAlpha = 1;
      }
      if (mark === 2) {
        context.globalAlpha = zoom < 0.3 ? 1 : 0.16;
        context.fillStyle = scene.accent;
        context.fill();
        context.globalAlpha = 1;
      }
      context.setLineDash(box.kind === "in" || box.kind === "out" ? [3, 2] : []);
      context.strokeStyle = mark ? scene.accent : box.over ? scene.sign : scene.dim;
      context.globalAlpha = mark || box.over ? 1 : 0.6;
      context.lineWidth = mark === 2 ? 2 : box.over || mark ? 1.5 : 1;
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
    }
    if (zoom < 0.3) continue;
    const titleY = box.made || !box.type ? y + (box.made ? 15 : box.h / 2) : y + 12;
    context.font = `${box.kind === "eq" || box.kind === "group" ? "600 " : ""}12px ${scene.code}`;
    context.fillStyle = scene.fg;
    const sign = box.inner ? (box.made ? "▾ " : "▸ ") : "";
    context.fillText(sign + box.label, x + 8, titleY);
    if (box.user) {
      const after = context.measureText(`${sign}${box.label} `).width;
      context.font = `12px ${scene.code}`;
      context.fillStyle = scene.accent;
      context.fillText(box.user, x + 8 + after, titleY);
    }
    if (box.type && !box.made && zoom >= 0.5) {
      context.font = `10.5px ${scene.code}`;
      context.fillStyle = scene.dim;
      context.fillText(box.type, x + 8, y + 25);
    }
  }
}

/** Where the edges stand along which a value is pending. */
function pendingMarks(drawn) {
  return [
    ...drawn.links.filter(([, , , , a]) => isPending(a)).map(([, , x2, y2]) => [x2 + 6, y2 - 10]),
    ...drawn.lanes.filter((lane) => isPending(lane.source)).flatMap((lane) => lane.ends.map(([, x, y]) => [x + 6, y - 10])),
  ];
}

function roundBox(context, x, y, w, hh, r) {
  context.beginPath();
  if (context.roundRect) context.roundRect(x, y, w, hh, r);
  else context.rect(x, y, w, hh);
}

/** The same picture as the text of an SVG file, with colors of its own. */
function svgOf(drawn, size) {
  const safe = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const n = (v) => v.toFixed(1);
  const out = [`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${n(size.width + 32)} ${n(size.height + 24)}" font-family="monospace" font-size="12"><rect width="100%" height="100%" fill="#fff"/>`];
  const frame = ({ box, x, y }, fill) => out.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(box.w)}" height="${n(box.h)}" rx="4" fill="${fill}" stroke="#8793a0"/>`);
  for (const item of drawn.items) if (item.box.made) frame(item, "#f5f7f9");
  out.push('<g fill="none" stroke="#8793a0" stroke-opacity=".7">');
  const dashes = (box, otherwise = "") => (isPending(box) ? ' stroke="#8a6100" stroke-opacity="1" stroke-dasharray="5 4"' : otherwise);
  for (const [x1, y1, x2, y2, a] of drawn.links) {
    const turn = Math.max(y1, y2 - 26);
    out.push(`<path${dashes(a)} d="M${n(x1)} ${n(y1)}V${n(turn)}C${n(x1)} ${n(turn + 14)} ${n(x2)} ${n(y2 - 14)} ${n(x2)} ${n(y2)}"/>`);
  }
  for (const lane of drawn.lanes) {
    const low = lane.ends.reduce((most, end) => Math.max(most, end[2]), 0);
    const branches = lane.ends.map(([, x, y]) => `M${n(lane.x)} ${n(Math.max(lane.top + 22, y - 22))}C${n(lane.x)} ${n(y - 2)} ${n(x)} ${n(y - 14)} ${n(x)} ${n(y)}`).join("");
    out.push(`<path${dashes(lane.source, ' stroke-opacity=".35"')} d="M${n(lane.from)} ${n(lane.top)}C${n(lane.from)} ${n(lane.top + 14)} ${n(lane.x)} ${n(lane.top + 2)} ${n(lane.x)} ${n(lane.top + 22)}V${n(Math.max(lane.top + 22, low - 22))}${branches}"/>`);
  }
  out.push("</g>");
  for (const [x, y] of pendingMarks(drawn)) out.push(`<text x="${n(x)}" y="${n(y)}" font-size="10.5" fill="#8a6100">T</text>`);
  for (const item of drawn.items) {
    const { box, x, y } = item;
    if (!box.made) frame(item, box.overlaps ? "#e3f2ec" : "#fff");
    out.push(`<text x="${n(x + 8)}" y="${n(y + 15)}" font-weight="600">${safe(box.label)}${box.user ? ` <tspan fill="#0b63a5" font-weight="400">${safe(box.user)}</tspan>` : ""}</text>`);
    if (box.type && !box.made) out.push(`<text x="${n(x + 8)}" y="${n(y + 28)}" font-size="10.5" fill="#5a6572">${safe(box.type)}</text>`);
  }
  return `${out.join("")}</svg>`;
}
