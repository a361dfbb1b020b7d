// A document small enough to read: nodes, attributes, events, and the selectors the views use.

class Text {
  constructor(text) { this.data = String(text); this.parentNode = null; }
  get textContent() { return this.data; }
  remove() { this.parentNode?.drop(this); }
}

const compound = /([\w-]+|\*)?((?:\.[\w-]+|\[[^\]]+\]|#[\w-]+|:[\w-]+)*)/y;

function matches(node, selector) {
  const parts = selector.trim().split(/\s+(?![^[]*\])/);
  const one = (n, part) => {
    compound.lastIndex = 0;
    const [, tag, rest] = compound.exec(part);
    if (tag && tag !== "*" && n.tagName.toLowerCase() !== tag) return false;
    return [...rest.matchAll(/\.([\w-]+)|#([\w-]+)|\[([\w-]+)(?:([~^])?="([^"]*)")?\]|:([\w-]+)/g)].every(([, cls, id, name, how, value, pseudo]) => {
      if (cls) return n.classList.contains(cls);
      if (id) return n.getAttribute("id") === id;
      if (pseudo) return true;
      const has = n.getAttribute(name);
      if (has === null) return false;
      if (value === undefined) return true;
      return how === "~" ? has.split(" ").includes(value) : how === "^" ? has.startsWith(value) : has === value;
    });
  };
  if (!one(node, parts.pop())) return false;
  let up = node.parentNode;
  while (parts.length && up instanceof Element) {
    if (one(up, parts[parts.length - 1])) parts.pop();
    up = up.parentNode;
  }
  return parts.length === 0;
}

export class Element {
  constructor(tag) {
    this.tagName = tag.toUpperCase();
    this.attributes = new Map();
    this.childNodes = [];
    this.parentNode = null;
    this.listeners = {};
    this.style = { setProperty: (k, v) => { this.style[k] = v; } };
    this.clientHeight = 400;
    this.scrollTop = 0;
    const self = this;
    this.dataset = new Proxy({}, {
      get: (_, k) => self.getAttribute(`data-${k.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`) ?? undefined,
      set: (_, k, v) => { self.setAttribute(`data-${k}`, v); return true; },
    });
    this.classList = {
      contains: (c) => this.className.split(" ").includes(c),
      add: (...cs) => { for (const c of cs) if (!this.classList.contains(c)) this.className = `${this.className} ${c}`.trim(); },
      remove: (...cs) => { this.className = this.className.split(" ").filter((c) => !cs.includes(c)).join(" "); },
      toggle: (c, on = !this.classList.contains(c)) => (on ? this.classList.add(c) : this.classList.remove(c)),
    };
  }
  get className() { return this.getAttribute("class") ?? ""; }
  set className(v) { this.setAttribute("class", v); }
  get hidden() { return this.attributes.has("hidden"); }
  set hidden(on) { if (on) this.setAttribute("hidden", ""); else this.attributes.delete("hidden"); }
  get value() { return this.typed ?? this.getAttribute("value") ?? ""; }
  set value(v) { this.typed = v; }
  get children() { return this.childNodes.filter((n) => n instanceof Element); }
  get firstChild() { return this.childNodes[0] ?? null; }
  get textContent() { return this.childNodes.map((n) => n.textContent).join(""); }
  set textContent(text) { this.replaceChildren(...(text === "" ? [] : [text])); }
  set innerHTML(_) { throw new Error("markup from text is not allowed"); }
  setAttribute(name, value) { this.attributes.set(name, String(value)); }
  getAttribute(name) { return this.attributes.has(name) ? this.attributes.get(name) : null; }
  drop(node) { this.childNodes = this.childNodes.filter((n) => n !== node); node.parentNode = null; }
  append(...nodes) {
    for (const raw of nodes) {
      const node = typeof raw === "object" ? raw : new Text(raw);
      node.remove();
      node.parentNode = this;
      this.childNodes.push(node);
    }
  }
  prepend(...nodes) {
    const rest = [...this.childNodes];
    this.append(...nodes, ...rest);
  }
  appendChild(node) { this.append(node); return node; }
  insertNear(node, offset) {
    node.remove();
    const all = this.parentNode.childNodes;
    all.splice(all.indexOf(this) + offset, 0, node);
    node.parentNode = this.parentNode;
  }
  before(node) { this.insertNear(node, 0); }
  after(node) { this.insertNear(node, 1); }
  replaceWith(node) { this.before(node); this.remove(); }
  replaceChildren(...nodes) { for (const n of [...this.childNodes]) this.drop(n); this.append(...nodes); }
  remove() { this.parentNode?.drop(this); }
  *walk() { for (const c of this.children) { yield c; yield* c.walk(); } }
  querySelectorAll(selector) { return [...this.walk()].filter((n) => selector.split(", ").some((one) => matches(n, one))); }
  querySelector(selector) { return this.querySelectorAll(selector)[0] ?? null; }
  closest(selector) { for (let n = this; n instanceof Element; n = n.parentNode) if (matches(n, selector)) return n; return null; }
  addEventListener(name, run) { (this.listeners[name] ??= []).push(run); }
  removeEventListener(name, run) { this.listeners[name] = (this.listeners[name] ?? []).filter((f) => f !== run); }
  fire(name, more = {}) {
    const event = { type: name, target: this, preventDefault() {}, stopPropagation() { this.stopped = true; }, ...more };
    for (let n = this; n instanceof Element && !event.stopped; n = n.parentNode) for (const run of n.listeners[name] ?? []) run(event);
  }
  click() { this.fire("click"); }
  focus() { globalThis.document.focused = this; }
  blur() {}
  contains(node) { return node === this || [...this.walk()].includes(node); }
  /** How many listeners hang in this tree: what a clean end brings back to nothing. */
  listenerCount() { let n = 0; for (const e of [this, ...this.walk()]) for (const k in e.listeners) n += e.listeners[k].length; return n; }
}

globalThis.document = {
  createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag), createTextNode: (t) => new Text(t), body: new Element("body"),
};
globalThis.window = globalThis;
globalThis.parent = globalThis;
globalThis.requestAnimationFrame = (run) => setTimeout(() => run(performance.now()), 0);
globalThis.cancelAnimationFrame = clearTimeout;
