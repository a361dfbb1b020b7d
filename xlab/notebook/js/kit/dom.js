/** Nodes from trees and by hand. Text goes in with textContent only; markup never comes from data. */

const svgSpace = "http://www.w3.org/2000/svg";
const svgTags = new Set("svg g rect path text defs pattern circle line".split(" "));
const htmlTags = new Set(("a article b br button code del details div figcaption figure footer h2 h3 header i input ins label li mark option p pre section " +
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
  node.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return node;
}

/** Add a listener and remember how to take it away. */
export function listen(bin, target, name, run, options) {
  target.addEventListener(name, run, options);
  bin.push(() => target.removeEventListener(name, run, options));
}

/** True when the person asked for no motion. */
export function still() {
  return typeof matchMedia === "function" && matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Follow the host's light or dark theme, also from inside a saved output's frame. */
export function followTheme(root, bin) {
  let host = document.body;
  try {
    if (parent !== window && parent.document.body) host = parent.document.body;
  } catch {
    host = document.body;
  }
  const look = () => {
    const light = host.dataset.jpThemeLight;
    const dark = light === "false" || host.classList.contains("vscode-dark") || host.classList.contains("dark");
    if (dark) root.dataset.theme = "dark";
    else if (light === "true" || host.classList.contains("vscode-light")) root.dataset.theme = "light";
  };
  look();
  if (typeof MutationObserver === "function") {
    const watch = new MutationObserver(look);
    watch.observe(host, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
    bin.push(() => watch.disconnect());
  }
}
