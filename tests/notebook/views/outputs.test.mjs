// What JupyterLab draws of an output: in a notebook that its reader did not run, and where the live view is drawn already.
import assert from "node:assert";
import { Element } from "./dom.mjs";

const [, , script] = process.argv;
const theirs = new Element("iframe");
const page = "<!doctype html>\n<html><body>a page</body></html>";
const hostile = {
  srcdoc: page, title: "theirs", style: "position:fixed;inset:0;height:300px", onload: "steal()", src: "https://elsewhere.example",
  sandbox: "allow-scripts allow-same-origin", allow: "camera", name: "top",
};
for (const [name, value] of Object.entries(hostile)) theirs.setAttribute(name, value);
const create = document.createElement;
document.createElement = (tag) => {
  if (tag !== "template") return create(tag);
  const content = new Element("fragment");
  content.append(theirs);
  return { content };
};

class Panel {
  node = new Element("div");
  widgets = [];
  isAttached = true;
  addWidget(widget) {
    this.widgets.push(widget);
    this.node.append(widget.node);
  }
}
Object.defineProperty(Element.prototype, "isConnected", { get() { return this.parentNode !== null; } });
const watching = [];
globalThis.MutationObserver = class {
  constructor(look) { watching.push(look); }
  observe() {}
  disconnect() {}
};
globalThis.addEventListener = () => {};
await import(script);
let factory;
const registry = { mimeTypes: [], addFactory: (given) => (factory ??= given) };
const of = (module) => ({ any: { get: async () => () => module } });
_JUPYTERLAB.xlab.init({ "@jupyterlab/notebook": of({ INotebookTracker: {} }), "@lumino/widgets": of({ Panel }) });
const plugin = (await _JUPYTERLAB.xlab.get())().default;
plugin.activate(null, { forEach: (teach) => teach({ content: { rendermime: registry } }), widgetAdded: { connect() {} } });
const output = factory.createRenderer();
await output.renderModel({ trusted: false, data: { "text/html": "an iframe" } });
await new Promise((resolve) => setTimeout(resolve, 600));

const frames = output.node.querySelectorAll("iframe");
assert.equal(frames.length, 1);
const attributes = Object.fromEntries(frames[0].attributes);
assert.deepEqual(Object.keys(attributes).sort(), ["loading", "sandbox", "srcdoc", "style", "title"]);
assert.equal(attributes.sandbox, "allow-scripts");
assert.equal(attributes.style, "width:100%;height:300px;border:0");
assert.ok(attributes.srcdoc.endsWith(page));
assert.match(attributes.srcdoc, /^<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none';/);

// A second factory of live views, which JupyterLab may be given at any time, leaves a view alone that is drawn.
const LIVE = "application/vnd.jupyter.widget-view+json";
const live = { node: new Element("div"), gone: false, dispose() { this.gone = true; }, renderModel: async () => {} };
Object.assign(registry, { mimeTypes: [LIVE], createRenderer: () => live });
const other = factory.createRenderer();
await other.renderModel({ trusted: true, data: { "text/html": "an iframe" } });
const drawn = new Element("div");
drawn.className = "xl-live";
live.node.append(drawn);
watching.at(-1)();
registry.addFactory({ mimeTypes: [LIVE] });
assert.ok(!live.gone && other.node.contains(drawn), "a drawn view stays");
console.log(attributes.srcdoc.match(/content="([^"]*)"/)[1]);
