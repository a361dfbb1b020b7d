// What JupyterLab draws of an output: in a notebook that its reader did not run, and where the live view is drawn already.
import assert from "node:assert";
import { Element } from "./dom.mjs";

const [, , script] = process.argv;
const theirs = new Element("div");
const page = "<article class='xl'>a page</article>";
Object.defineProperty(theirs, "innerHTML", { value: page });
const hostile = {
  "class": "xl-saved", "aria-label": "theirs", "data-tall": "300", "data-xl": "x1", style: "position:fixed;inset:0;height:300px", onload: "steal()",
  src: "https://elsewhere.example", sandbox: "allow-scripts allow-same-origin", allow: "camera", name: "top",
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
const saved = { cells: [{ outputs: [{ data: { "application/vnd.xlab.view+json": {}, "text/html": "", "application/vnd.jupyter.widget-view+json": {} } }, {}] }, {}] };
const outputs = [{ data: {} }, { data: { "text/html": '<script data-xl-code="x1">Y29kZQ==</script>' } }];
const model = { toJSON: () => structuredClone(saved), cells: [{}, { outputs: { length: outputs.length, get: (i) => outputs[i] } }] };
const registry = { mimeTypes: [], addFactory: (given) => (factory ??= given) };
const of = (module) => ({ any: { get: async () => () => module } });
_JUPYTERLAB.xlab.init({ "@jupyterlab/notebook": of({ INotebookTracker: {} }), "@lumino/widgets": of({ Panel }) });
const plugin = (await _JUPYTERLAB.xlab.get())().default;
plugin.activate(null, { forEach: (teach) => teach({ content: { rendermime: registry, model } }), widgetAdded: { connect() {} } });
const output = factory.createRenderer();
await output.renderModel({ trusted: false, data: { "text/html": "their page" } });
await new Promise((resolve) => setTimeout(resolve, 600));

const frames = output.node.querySelectorAll("iframe");
assert.equal(frames.length, 1);
const attributes = Object.fromEntries(frames[0].attributes);
assert.deepEqual(Object.keys(attributes).sort(), ["loading", "sandbox", "srcdoc", "style", "title"]);
assert.equal(attributes.sandbox, "allow-scripts");
assert.equal(attributes.style, "width:100%;height:300px;border:0;display:block");
assert.ok(attributes.srcdoc.includes(`${page}<script type="application/octet-stream" id="xl-code">Y29kZQ==</script><script>(async`), "the script of another output brings it to life");
assert.match(attributes.srcdoc, /^<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none';/);

// A second factory of live views, which JupyterLab may be given at any time, leaves a view alone that is drawn.
const LIVE = "application/vnd.jupyter.widget-view+json";
let asked;
const live = { node: new Element("div"), gone: false, dispose() { this.gone = true; }, renderModel: async (given) => { asked = given; } };
Object.assign(registry, { mimeTypes: [LIVE], createRenderer: () => live });
const other = factory.createRenderer();
await other.renderModel({ trusted: true, data: { "text/html": "a page", "application/vnd.xlab.view+json": { model_id: "it" } } });
assert.equal(asked.data[LIVE].model_id, "it");
const drawn = new Element("div");
drawn.className = "xl-live";
live.node.append(drawn);
watching.at(-1)();
registry.addFactory({ mimeTypes: [LIVE] });
assert.ok(!live.gone && other.node.contains(drawn), "a drawn view stays");

// What is saved has no name of a live view, which is nothing to a reader who has no kernel.
const [first] = model.toJSON().cells[0].outputs;
assert.deepEqual(Object.keys(first.data), ["application/vnd.xlab.view+json", "text/html"]);
console.log(attributes.srcdoc.match(/content="([^"]*)"/)[1]);
