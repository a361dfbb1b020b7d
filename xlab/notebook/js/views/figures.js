import { h } from "../kit/dom.js";
import { definePanel } from "../kit/panels.js";

/** The open view as a figure of its own: SVG with text that stays text, PNG, or a page to print as PDF, for a column of a paper or a slide. */

/** Inches across, and the pixels that the view is laid out in: letters of 13 pixels are 6.5 points in a column, 13 on a slide. */
export const figureSizes = { column: { inches: 3.3, layout: 460, dpi: 300 }, slide: { inches: 10, layout: 720, dpi: 150 } };

const notDrawn = ".xl-save, button:not(.xl-rung-name), .xl-tl-bar, .xl-scrubber, .xl-player, .xl-edge, .xl-transport, .xl-scrub, .xl-status, .xl-fold:not(.xl-pick), .xl-tabs, .xl-defs, .xl-pricing, input, select, [hidden]";
/** Bars of controls, which are not drawn: without them what is below moves up. */
const controlBars = ".xl-transport, .xl-scrubber, .xl-player, .xl-pricing, .xl-tl-bar, .xl-figure-alone";
const figureSpace = "http://www.w3.org/2000/svg";
const lookOf = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "paint-order", "opacity", "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline"];
const borderSides = ["Top", "Right", "Bottom", "Left"];
const seeThrough = (color) => !color || color === "transparent" || /^rgba\(.*, 0\)$/.test(color) || /\/ 0\)$/.test(color);
const one = (value) => +value.toFixed(2);

let pen = null;

/** How far below its top the line of a text of this font and height stands. */
function baseline(style, height) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const m = pen.measureText("x");
  return (height - m.fontBoundingBoxAscent - m.fontBoundingBoxDescent) / 2 + m.fontBoundingBoxAscent;
}

/** A text node as the lines it is laid out in: `[text, rectangle]`. */
function laidLines(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const whole = [...range.getClientRects()].filter((r) => r.width);
  if (whole.length < 2) return whole.map((r) => [node.data, r]);
  const out = [];
  for (let at = 0; at < node.data.length; at += 1) {
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    const r = range.getBoundingClientRect();
    const last = out[out.length - 1];
    if (!r.width) continue;
    if (last && Math.abs(last[1].top - r.top) < 3) {
      last[0] += node.data[at];
      last[1] = new DOMRect(last[1].left, last[1].top, r.right - last[1].left, last[1].height);
    } else out.push([node.data[at], r]);
  }
  return out;
}

/** Elements as nodes of one drawing. Nothing outside `clip`, what scrolls is cut where its frame ends. */
function drawnParts(root, out, from, hatch) {
  const make = (tag, properties, ...inside) => {
    const node = document.createElementNS(figureSpace, tag);
    for (const name in properties) if (properties[name] !== null) node.setAttribute(name, properties[name]);
    node.append(...inside);
    return node;
  };
  let clips = 0;
  const boxOf = (r) => ({ x: one(r.left - from.left), y: one(r.top - from.top), width: one(r.width), height: one(r.height) });
  const within = (r, clip) => r.right > clip.left && r.left < clip.right && r.bottom > clip.top && r.top < clip.bottom;
  function picture(svg, into) {
    const copy = svg.cloneNode(true);
    const olds = [svg, ...svg.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((node, i) => {
      const style = getComputedStyle(olds[i]);
      for (const name of lookOf) {
        const value = style.getPropertyValue(name);
        if (value) node.setAttribute(name, value.replace(/"/g, "'"));
      }
      for (const name of ["class", "style", "tabindex", "data-eq"]) node.removeAttribute(name);
    });
    copy.setAttribute("overflow", "visible");     // as in the page: what is written beside an axis
    const box = boxOf(svg.getBoundingClientRect());
    if (!copy.getAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${svg.getAttribute("width") || box.width} ${svg.getAttribute("height") || box.height}`);
    for (const name in box) copy.setAttribute(name, box[name]);
    copy.setAttribute("color", getComputedStyle(svg).color);
    into.append(copy);
  }
  function walk(el, into, clip) {
    if (el.matches(notDrawn)) return;
    const style = getComputedStyle(el);
    const rect = el.getBoundingClientRect();
    if (style.display === "none" || style.visibility === "hidden") return;
    if (el.tagName.toLowerCase() === "svg") {
      if (within(rect, clip)) picture(el, into);
      return;
    }
    if (rect.width && rect.height && within(rect, clip)) {
      const box = boxOf(rect);
      if (!seeThrough(style.backgroundColor)) into.append(make("rect", { ...box, rx: parseFloat(style.borderTopLeftRadius) || null, fill: style.backgroundColor, opacity: style.opacity === "1" ? null : style.opacity }));
      if (hatch && style.backgroundImage.startsWith("repeating-linear-gradient")) into.append(make("rect", { ...box, fill: `url(#${hatch.id})` }));
      for (const side of borderSides) {
        const width = parseFloat(style[`border${side}Width`]);
        const color = style[`border${side}Color`];
        if (!width || style[`border${side}Style`] === "none" || seeThrough(color)) continue;
        into.append(make("rect", {
          x: side === "Right" ? one(box.x + box.width - width) : box.x, y: side === "Bottom" ? one(box.y + box.height - width) : box.y,
          width: side === "Left" || side === "Right" ? width : box.width, height: side === "Top" || side === "Bottom" ? width : box.height, fill: color }));
      }
    }
    let inside = into;
    if (style.overflowX !== "visible" && style.display !== "inline") {
      clip = new DOMRect(Math.max(clip.left, rect.left), Math.max(clip.top, rect.top), Math.min(clip.right, rect.right) - Math.max(clip.left, rect.left), Math.min(clip.bottom, rect.bottom) - Math.max(clip.top, rect.top));
      if (clip.width <= 0 || clip.height <= 0) return;
      clips += 1;
      inside = make("g", { "clip-path": `url(#xl-clip${clips})` });
      into.append(make("clipPath", { id: `xl-clip${clips}` }, make("rect", boxOf(clip))), inside);
    }
    const folded = el.tagName === "DETAILS" && !el.open;
    for (const child of el.childNodes) {
      if (folded && child.tagName !== "SUMMARY") continue;
      if (child.nodeType === 1) walk(child, inside, clip);
      else if (child.nodeType === 3 && child.data.trim()) {
        for (const [text, r] of laidLines(child)) {
          if (!within(r, clip)) continue;
          const words = style.whiteSpace.startsWith("pre") ? text : text.replace(/\s+/g, " ");
          inside.append(make("text", {
            x: one(r.left - from.left), y: one(r.top - from.top + baseline(style, r.height)), fill: style.color, "font-family": style.fontFamily.replace(/"/g, "'"), "font-size": style.fontSize,
            "font-weight": style.fontWeight === "400" ? null : style.fontWeight, "font-style": style.fontStyle === "normal" ? null : style.fontStyle, "xml:space": "preserve",
            textLength: one(r.width), lengthAdjust: "spacingAndGlyphs" }, words));
        }
      }
    }
  }
  const all = new DOMRect(-1e6, -1e6, 2e6, 2e6);
  for (const el of root) walk(el, out, all);
}

/** The drawing of some parts of a report, as text; `size` is one of `figureSizes`. Figures are light, as paper is. */
export function figureOf(root, parts, size) {
  const { inches, layout } = figureSizes[size];
  const was = [root.dataset.theme, root.getAttribute("style"), document.body.dataset.jpThemeLight];
  const scrolled = document.scrollingElement?.scrollTop ?? 0;
  const styled = [];
  const style = (selector, values) => {
    for (const el of root.querySelectorAll(selector)) {
      styled.push([el, el.getAttribute("style")]);
      for (const name in values) el.style.setProperty(name, values[name], "important");
    }
  };
  try {
    style(controlBars, { display: "none" });
    style(".xl-values", { height: "auto", "max-height": "440px" });
    root.dataset.theme = "light";
    if (was[2] !== undefined) document.body.dataset.jpThemeLight = "true";
    root.setAttribute("style", `width:${layout}px;max-width:none;--jp-layout-color0:#fff;--jp-layout-color1:#f5f7f9;--jp-ui-font-color1:#1b1f24;--jp-ui-font-color2:#5a6572;--jp-border-color2:#dde2e8;--vscode-editor-foreground:#1b1f24;--vscode-editor-background:#fff;${/--xl-hatch:[^;]*/.exec(was[1] ?? "")?.[0] ?? ""}`);
    // A table that is wider gets its room, at the price of smaller letters: a figure cannot be scrolled.
    // Once more, for with more room a table may have wider columns.
    for (let width = layout, turn = 0; turn < 3; turn += 1) {
      const over = Math.max(0, ...parts.flatMap((p) => [...p.querySelectorAll(".xl-scroll")]).map((el) => el.scrollWidth - el.clientWidth));
      if (over > 1) root.style.width = `${(width = Math.min(3 * layout, width + over))}px`;
    }
    const boxes = parts.map((p) => p.getBoundingClientRect());
    // The margins of the page are those of the figure: labels of axes reach into them.
    const margin = parseFloat(getComputedStyle(root).paddingLeft) || 0;
    const wide = Math.max(layout, ...boxes.map((r) => r.width + 2 * margin));
    const from = { left: Math.min(...boxes.map((r) => r.left)) - margin, top: Math.min(...boxes.map((r) => r.top)) };
    const tall = Math.max(...boxes.map((r) => r.bottom)) - from.top;
    const out = document.createElementNS(figureSpace, "svg");
    for (const [name, value] of Object.entries({ width: `${inches}in`, height: `${((inches * tall) / wide).toFixed(3)}in`, viewBox: `0 0 ${one(wide)} ${one(tall)}` })) out.setAttribute(name, value);
    const hatch = document.getElementById(/#([\w-]+)/.exec(was[1] ?? "")?.[1] ?? "xl-hatch");
    const back = document.createElementNS(figureSpace, "rect");
    back.setAttribute("width", "100%");
    back.setAttribute("height", "100%");
    back.setAttribute("fill", "#fff");
    out.append(back);
    if (hatch) {
      const copy = hatch.cloneNode(true);
      [...copy.children].forEach((node, i) => {
        node.setAttribute("fill", i ? "#8793a0" : "#eef0f2");
        node.removeAttribute("class");
      });
      out.append(document.createElementNS(figureSpace, "defs"));
      out.lastChild.append(copy);
    }
    drawnParts(parts, out, from, hatch);
    return new XMLSerializer().serializeToString(out);
  } finally {
    for (const [el, before] of styled) {
      if (before === null) el.removeAttribute("style");
      else el.setAttribute("style", before);
    }
    if (was[0] === undefined) delete root.dataset.theme;
    else root.dataset.theme = was[0];
    if (was[1] === null) root.removeAttribute("style");
    else root.setAttribute("style", was[1]);
    if (was[2] !== undefined) document.body.dataset.jpThemeLight = was[2];
    if (document.scrollingElement) document.scrollingElement.scrollTop = scrolled;
  }
}

/** The same as pixels. */
export async function pixelsOf(svg, size) {
  const image = new Image();
  await new Promise((done, failed) => {
    image.onload = done;
    image.onerror = () => failed(new Error("this browser cannot draw it"));
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  });
  const { inches, dpi } = figureSizes[size];
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(inches * dpi);
  canvas.height = Math.round((canvas.width * image.naturalHeight) / image.naturalWidth);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** A page as large as the figure, in the browser's own dialog: there it becomes a PDF with letters. */
function printed(svg) {
  const frame = h("iframe", { style: "position:fixed;width:0;height:0;border:0", "aria-hidden": "true" });
  document.body.append(frame);
  const inner = frame.contentDocument;
  const made = inner.importNode(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement, true);
  inner.head.append(Object.assign(inner.createElement("style"), { textContent: `@page{size:${made.getAttribute("width")} ${made.getAttribute("height")};margin:0}body{margin:0}svg{display:block}` }));
  inner.body.append(made);
  frame.contentWindow.onafterprint = () => frame.remove();
  frame.contentWindow.print();
}

function keepFile(name, blob) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** What moves in the open part of a view: the number of the chosen collective, -1 for one record that moves; null where nothing does. */
function movingIn(nodes) {
  const section = nodes.find((node) => node.dataset?.tab) ?? nodes.flatMap((node) => [...(node.querySelectorAll?.(".xl-panel") ?? [])])[0];
  const tab = section?.dataset.tab;
  if (tab === "collectives") return section.querySelector("tr[data-row]") ? +(section.querySelector("tr.xl-chosen")?.dataset.row ?? 0) : null;
  return ["steps", "replay", "resharding"].includes(tab) ? -1 : null;
}

/** The menu: the view that is open, as a file. `parts` says what is open and what to call it; a kernel that can be asked also draws what moves. */
export function figureMenu(root, parts, say, ask) {
  const choices = ["SVG", "PNG", "PDF", ...(ask ? ["GIF"] : [])].flatMap((kind) => Object.keys(figureSizes).map((size) => [`${kind}, ${size}`, kind, size]));
  const list = h("select", { class: "xl-save xl-figure", "aria-label": "save this view as a figure", title: "this view as a figure: column 3.3 in, slide 10 in wide", change: async () => {
    const [, kind, size] = choices.find(([label]) => label === list.value) ?? [];
    list.value = "";
    if (!kind) return;
    try {
      const { name, nodes } = parts();
      if (kind === "GIF") {
        const of = movingIn(nodes);
        if (of === null) throw new Error("nothing moves here: a collective and a run do");
        say("the kernel draws the animation …");
        const made = await ask("animate", { of, size });
        keepFile(`${name.replace(/[^\w.-]+/g, "_")}.gif`, new Blob([Uint8Array.from(atob((made.parts || []).join("")), (c) => c.charCodeAt(0))], { type: made.kind }));
        say("");
        return;
      }
      const file = `${name.replace(/[^\w.-]+/g, "_")}.${kind.toLowerCase()}`;
      const svg = figureOf(root, nodes, size);
      if (kind === "SVG") keepFile(file, new Blob([svg], { type: "image/svg+xml" }));
      else if (kind === "PNG") keepFile(file, await pixelsOf(svg, size));
      else printed(svg);
    } catch (error) {
      say(`no figure: ${error.message}`);
    }
  } }, h("option", { value: "" }, "⤓ figure"), choices.map(([label]) => h("option", { value: label }, label)));
  const gifs = [...list.querySelectorAll("option")].filter((o) => o.value.startsWith("GIF"));
  const offer = () => { for (const o of gifs) o.hidden = o.disabled = movingIn(parts().nodes) === null; };
  for (const name of gifs.length ? ["pointerenter", "pointerdown", "focus"] : []) list.addEventListener(name, offer);
  return list;
}

/** Pages of their own and live views have the menu; saved outputs of a notebook go without, to stay small. */
definePanel("figures", (root, { parts, say, ask }) => figureMenu(root, parts, say, ask));
