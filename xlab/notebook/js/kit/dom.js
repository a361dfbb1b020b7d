/** Nodes from trees and by hand. Text goes in with textContent only; markup never comes from data. */

const svgSpace = "http://www.w3.org/2000/svg";
const svgTags = new Set("svg g rect path text defs pattern circle ellipse line".split(" "));
const htmlTags = new Set(("a article b br button code del details div figcaption figure footer h2 h3 header i input ins label li mark ol option p pre section " +
  "select small span strong summary table tbody td th thead title tr ul").split(" "));

/**
 * Build a node from `[tag, attributes, ...children]`, allowing only what pictures use.
 * @param {any} tree @param {boolean} [inSvg] @returns {Node}
 */
export function build(tree, inSvg = false) {
  if (!Array.isArray(tree)) return document.createTextNode(String(tree));
  const [tag, attributes, ...children] = tree;
  const svg = tag === "svg" || (inSvg && (svgTags.has(tag) || tag === "title"));
  const node = svg ? document.createElementNS(svgSpace, tag) : document.createElement(htmlTags.has(tag) ? tag : "span");
  for (const name in attributes) {
    if (/^on/i.test(name) || (name === "href" && attributes[name] !== "#")) continue;
    node.setAttribute(name, attributes[name]);
  }
  for (const child of children) node.append(build(child, svg));
  return node;
}

/**
 * Make an element: properties that are functions become listeners, the others attributes.
 * @param {string} tag @param {Record<string, any>} [properties] @param {...any} children
 */
export function h(tag, properties = {}, ...children) {
  const node = svgTags.has(tag) ? document.createElementNS(svgSpace, tag) : document.createElement(tag);
  for (const name in properties) {
    const value = properties[name];
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  // JupyterLab takes keys before a field hears them: Shift+Enter would run the cell.
  if (tag === "input" && /search|number/.test(properties.type)) node.setAttribute("data-lm-suppress-shortcuts", "true");
  node.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return node;
}

/** Add a listener, which `bin` takes away. */
export function listen(bin, target, name, run, options) {
  target.addEventListener(name, run, options);
  bin.push(() => target.removeEventListener(name, run, options));
}

const icons = {
  first: "M2 2h2v10H2zM12 2v10L5 7z", back: "M10 2v10L3 7z", play: "M4 2v10l7-5z", pause: "M3 2h3v10H3zM8 2h3v10H8z", last: "M10 2h2v10h-2zM2 2v10l7-5z",
  into: "M6 1h2v6h3L7 12 3 7h3z", out: "M6 13h2V7h3L7 2 3 7h3z", cursor: "M6 1h2v5h3L7 10 3 6h3zM2 11h10v2H2z", nan: "M3 1h2v12H3zM5 2h7L10 5l2 3H5z",
};

/** A small drawn sign; fonts differ in which they have. */
export function icon(name) {
  return h("svg", { class: "xl-icon", width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" }, h("path", { d: icons[name] }));
}

/** Whether no motion is wanted. */
export function still() {
  return typeof matchMedia === "function" && matchMedia("(prefers-reduced-motion: reduce)").matches;
}
