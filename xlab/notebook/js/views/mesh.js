import { h, listen } from "../kit/dom.js";
import { bytes } from "../kit/format.js";

/** The mesh and what lies on it, drawn from a mesh, a spec and a shape; Python draws the same for pages without a script. */

export const axisHues = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const mostCells = 1024;
const mostFacets = 16;

const product = (sizes) => sizes.reduce((a, b) => a * b, 1);
export const meshSize = (mesh) => product(mesh.sizes);
export const deviceAt = (mesh, i) => (mesh.ids.length ? mesh.ids[i] : i);
export const meshText = (mesh) => mesh.names.map((n, i) => `${n}=${mesh.sizes[i]}`).join(" ");

/** Each position of the mesh as coordinates, the last axis fastest. */
export function coordinatesOf(mesh, i) {
  const at = [];
  for (let k = mesh.sizes.length - 1; k >= 0; k -= 1) {
    at[k] = i % mesh.sizes[k];
    i = Math.floor(i / mesh.sizes[k]);
  }
  return at;
}

/** The style of one index along one axis: the axis' hue, lighter with the index. */
export function axisShade(axis, index, size) {
  return `--h:${axisHues[axis % 6]};--p:${size > 1 ? 100 - Math.round((52 * index) / (size - 1)) : 100}%`;
}

/** An axis or a part of one (`x:(2)4`): its place in the mesh, its size, what to divide a coordinate by. */
function axisPart(axis, mesh) {
  const found = /^(.+):\((\d+)\)(\d+)$/.exec(axis);
  const place = mesh.names.indexOf(found ? found[1] : axis);
  return found ? [place, +found[3], mesh.sizes[place] / (+found[2] * +found[3])] : [place, mesh.sizes[place], 1];
}

/** What each position of the mesh holds under a spec: a list of `[start, stop]` per dimension. */
export function slicesOf(mesh, spec, shape) {
  const parts = shape.map((_, d) => ((spec || [])[d] || []).map((a) => axisPart(a, mesh)));
  return Array.from({ length: meshSize(mesh) }, (_, i) => {
    const at = coordinatesOf(mesh, i);
    return shape.map((length, d) => {
      let number = 0;
      let count = 1;
      for (const [place, size, divide] of parts[d]) {
        number = number * size + (Math.floor(at[place] / divide) % size);
        count *= size;
      }
      const piece = Math.ceil(length / count);
      return [Math.min(number * piece, length), Math.min((number + 1) * piece, length)];
    });
  });
}

const spans = (slices) => slices.map(([a, b]) => `${a}:${b}`).join(", ");

/** A rectangle with its devices written in it and one band per mesh axis along its foot. */
function meshCell(x, y, w, tall, devices, place, used, mesh, tip, label) {
  const first = used ? mesh.names.findIndex((n) => used.has(n)) : 0;
  const tinted = place && first >= 0;
  const box = h("rect", { x, y, width: w, height: tall, class: tinted ? "xl-cell xl-tint" : "xl-cell", style: tinted ? axisShade(first, place[first], mesh.sizes[first]) : null });
  const bands = !place ? [] : mesh.names.map((name, k) => {
    if (mesh.sizes[k] === 1) return null;
    const split = !used || used.has(name);
    return h("rect", { x: (x + 2 + ((w - 4) * k) / mesh.names.length).toFixed(1), y: y + tall - 7, width: ((w - 4) / mesh.names.length - 1).toFixed(1), height: 5,
      style: split ? axisShade(k, place[k], mesh.sizes[k]) : null, class: split ? "xl-band" : "xl-band xl-hatch" });
  });
  const title = h("title", {}, tip);
  return h("g", { class: "xl-block", "data-dev": devices.length ? devices.join(" ") : null }, title, box, bands, h("text", { x: x + w / 2, y: y + tall / 2 + 1, class: "xl-cell-label" }, label));
}

function devicesLabel(devices, width) {
  const whole = devices.join(",");
  return whole.length <= Math.max(1, Math.floor(width / 7)) ? whole : `${devices[0]} +${devices.length - 1}`;
}

function pictureOf(width, height, label, parts) {
  return h("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, parts);
}

const axisText = (x, y, words, hue, end = "") => h("text", { x, y, class: `xl-axis${end}`, style: hue ? `--hue:${hue}` : null }, words);

/** Axes by which an array is split, parts of axes counted as the axis. */
export const usedAxes = (spec) => new Set((spec || []).flat().map((a) => a.split(":")[0]));

/** The array as blocks: the last two dimensions as a grid, leading ones as facets. `held[i]` are the slices at position i of the mesh. */
export function blocksPicture(form, mesh, held, name) {
  const rank = form.shape.length;
  const cuts = Array.from({ length: rank }, (_, d) => [...new Map(held.map((s) => [s[d].join(), s[d]])).values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]));
  const where = cuts.map((c) => new Map(c.map((cut, i) => [cut.join(), i])));
  const cells = new Map();
  held.forEach((s, i) => {
    const at = s.map((cut, d) => where[d].get(cut.join())).join();
    if (!cells.has(at)) cells.set(at, []);
    cells.get(at).push(i);
  });
  if (cells.size > mostCells) return h("p", { class: "xl-dim" }, `${cells.size.toLocaleString("en")} different blocks: too many to draw (limit ${mostCells})`);
  const spec = form.spec || form.shape.map(() => []);
  const rows = rank > 1 ? cuts[rank - 2] : [[0, 1]];
  const cols = rank ? cuts[rank - 1] : [[0, 1]];
  const facets = [...new Set([...cells.keys()].map((k) => k.split(",").slice(0, -2).join()))].map((k) => (k ? k.split(",").map(Number) : [])).sort((a, b) => { for (let d = 0; d < a.length; d += 1) if (a[d] !== b[d]) return a[d] - b[d]; return 0; });
  const shown = rank > 2 ? facets.slice(0, mostFacets) : [[]];
  const longest = Math.max(...[...cells.values()].map((d) => devicesLabel(d, 400).length));
  const w = cols.length <= 12 ? Math.max(62, Math.min(longest, 24) * 7 + 12) : 44;
  const tall = rows.length <= 12 ? 34 : 24;
  const names = spec.map((axes) => (axes.length ? `@${axes.join("+")}` : ""));
  const left = Math.max(64, 8 * (names[rank - 2] || "").length + 26);
  const top = 34;
  const across = Math.min(shown.length, 4);
  const wide = left + w * cols.length + 18;
  const high = top + tall * rows.length + 14;
  const hue = (d) => { const k = mesh.names.indexOf((spec[d] || [])[0]); return k >= 0 ? axisHues[k % 6] : null; };
  const used = usedAxes(spec);
  const parts = [];
  shown.forEach((facet, n) => {
    const ox = (n % across) * wide;
    const oy = Math.floor(n / across) * high;
    if (facet.length) parts.push(h("text", { x: ox + left, y: oy + 10, class: "xl-facet" }, `[${spans(facet.map((i, d) => cuts[d][i]))}, …]`));
    if (rank) parts.push(axisText(ox + left, oy + top - 8, `dim ${rank - 1} ${names[rank - 1]} →`, hue(rank - 1)));
    if (rank > 1) parts.push(axisText(ox + left - 8, oy + top + 12, `dim ${rank - 2}`, null, " xl-end"));
    if (rank > 1 && names[rank - 2]) parts.push(axisText(ox + left - 8, oy + top + 26, `${names[rank - 2]} ↓`, hue(rank - 2), " xl-end"));
    rows.forEach((row, i) => cols.forEach((col, j) => {
      const positions = cells.get([...facet, ...(rank > 1 ? [i, j] : rank ? [j] : [])].join());
      if (!positions) return;
      const devices = positions.map((p) => deviceAt(mesh, p));
      const at = `${name || "x"}[${spans([...facet.map((f, d) => cuts[d][f]), ...(rank > 1 ? [row] : []), ...(rank ? [col] : [])])}]`;
      const tip = `${devices.length === 1 ? "device" : `${devices.length} devices:`} ${devices.slice(0, 16).join()}${devices.length > 16 ? "…" : ""}   ${at}   ${bytes(form.each)}`;
      parts.push(meshCell(ox + left + j * w, oy + top + i * tall, w, tall, devices, coordinatesOf(mesh, positions[0]), used, mesh, tip, devicesLabel(devices, w)));
    }));
  });
  const more = facets.length - shown.length;
  return h("div", {}, pictureOf(across * wide, Math.ceil(shown.length / across) * high, `${name} as blocks`, parts),
    rank > 2 && more > 0 ? h("p", { class: "xl-dim" }, `${more} more facet${more > 1 ? "s" : ""} not drawn`) : null);
}

/** Centers of the devices by mesh position, labels of the axes, width and height: last axis across, the one before down, others as small multiples. */
export function meshPlaces(mesh, w = 46, tall = 34, gaps = [0, 0]) {
  const sizes = [1, 1, ...mesh.sizes];
  const names = ["", "", ...mesh.names];
  const [rows, cols] = sizes.slice(-2);
  const [down, right] = names.slice(-2);
  const outerSizes = sizes.slice(2, -2);
  const outerNames = names.slice(2, -2);
  const count = product(outerSizes);
  // Room for the names of axes: "data 0" beside the rows, "model →" before the columns.
  const left = Math.max(8, ...[down, right].filter(Boolean).map((name) => 7 * name.length + 26), down ? 66 : 8);
  const top = outerNames.length ? 34 : 22;
  const across = Math.min(count, outerSizes.length ? outerSizes[outerSizes.length - 1] : 1, 4);
  const wide = left + cols * (w + gaps[0]) + 12;
  const high = top + rows * (tall + gaps[1]) + 8;
  const hue = (name) => axisHues[mesh.names.indexOf(name) % 6];
  const centers = [];
  const labels = [];
  for (let n = 0; n < count; n += 1) {
    const ox = (n % across) * wide;
    const oy = Math.floor(n / across) * high;
    if (outerNames.length) {
      const lead = coordinatesOf({ sizes: outerSizes }, n);
      labels.push(h("text", { x: ox + left, y: oy + 11, class: "xl-facet" }, outerNames.map((a, i) => `${a} ${lead[i]}`).join("  ")));
    }
    if (right) {
      labels.push(axisText(ox + left - 6, oy + top - 7, `${right} →`, hue(right), " xl-end"));
      for (let j = 0; j < cols; j += 1) labels.push(axisText(ox + left + j * (w + gaps[0]) + w / 2, oy + top - 7, j, hue(right), " xl-mid"));
    }
    for (let i = 0; i < rows; i += 1) {
      if (down) labels.push(axisText(ox + left - 6, oy + top + i * (tall + gaps[1]) + tall / 2 + 4, i ? i : `${down} 0`, hue(down), " xl-end"));
      for (let j = 0; j < cols; j += 1) centers[(n * rows + i) * cols + j] = [ox + left + j * (w + gaps[0]) + w / 2, oy + top + i * (tall + gaps[1]) + tall / 2];
    }
  }
  return { centers, labels, width: across * wide, height: Math.ceil(count / across) * high };
}

/** The mesh in mesh coordinates with what each device holds; hosts are outlined when there is more than one. */
export function meshPicture(mesh, form = null, held = null, name = "") {
  const { centers, labels, width, height } = meshPlaces(mesh);
  const used = form ? usedAxes(form.spec) : null;
  const parts = [...labels];
  centers.forEach(([x, y], i) => {
    const device = deviceAt(mesh, i);
    const at = coordinatesOf(mesh, i);
    const tip = `device ${device}   ${mesh.names.map((n, k) => `${n}=${at[k]}`).join(" ")}${mesh.hosts.length ? `   host ${mesh.hosts[i]}` : ""}${held ? `   ${name || "x"}[${spans(held[i])}]   ${bytes(form.each)}` : ""}`;
    parts.push(meshCell(x - 23, y - 17, 46, 34, [device], at, used, mesh, tip, String(device)));
    if (mesh.hosts.length) parts.push(h("rect", { x: x - 21.5, y: y - 15.5, width: 43, height: 31, class: `xl-host xl-host${mesh.hosts[i] % 3}` }));
  });
  return pictureOf(width, height, `mesh ${meshText(mesh)}`, parts);
}

/** Hover or focus a block: everything the same devices hold lights up beside it. */
export function linkDevices(root, say, bin) {
  let hot = [];
  const clear = () => {
    for (const node of hot) node.classList.remove("xl-hot");
    hot = [];
  };
  const point = (event) => {
    clear();
    const tip = event.target.closest?.("[data-tip], .xl-bar[title], .xl-map-buffer");
    const block = event.target.closest?.("[data-dev]");
    say(tip ? tip.dataset.tip || tip.getAttribute("title") || tip.querySelector("title").textContent : block?.querySelector("title")?.textContent || "");
    if (!block) return;
    const scope = block.closest(".xl-layout, .xl-stage") || root;
    for (const device of block.dataset.dev.split(" ").slice(0, 64)) {
      for (const node of scope.querySelectorAll(`[data-dev~="${device}"]`)) {
        node.classList.add("xl-hot");
        hot.push(node);
      }
    }
  };
  listen(bin, root, "pointerover", point);
  listen(bin, root, "focusin", point);
  listen(bin, root, "pointerleave", () => (clear(), say("")));
}
