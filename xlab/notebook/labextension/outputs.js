// What JupyterLab draws of an output of xlab: the live view where the kernel that made it answers, and otherwise the page that was saved
// with it. Alone, JupyterLab prefers the live view even in a notebook opened again, where its kernel is no more.
(() => {
  const OURS = "application/vnd.xlab.view+json";
  const LIVE = "application/vnd.jupyter.widget-view+json";
  const PAGE = "text/html";
  // What a saved page may do (`views/page.py`), said once more before a page that need not say it.
  const POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
  const soon = 400;
  const outputs = new Set();
  // The script reads the data, but in pages that were saved when data was packed as the script is.
  const start = `(async()=>{
const read=(id)=>new Response(new Blob([Uint8Array.from(atob(document.getElementById(id).textContent),(c)=>c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
if(document.getElementById("xl-data").textContent.startsWith("H4sI"))globalThis.xlabPage=JSON.parse(await read("xl-data"));
document.body.append(Object.assign(document.createElement("script"),{textContent:await read("xl-code")}));
})()`;
  const fit = `new ResizeObserver(([seen])=>parent.postMessage({xlabHeight:Math.ceil(seen.target.getBoundingClientRect().height)},"*")).observe(document.querySelector(".xl"))`;
  const script = (text) => `<script>${text}</` + "script>";

  /** The script of a version of the views, which stands in some outputs of a notebook. */
  function codeOf(version, model, notebook) {
    const has = new RegExp(`data-xl-code="${version}">([\\w+/=]*)<`);
    const found = has.exec(String(model.data[PAGE]));
    if (found) return found[1];
    for (const cell of notebook.content.model?.cells ?? []) {
      for (let i = 0; i < (cell.outputs?.length ?? 0); i += 1) {
        const other = has.exec(String(cell.outputs.get(i).data[PAGE] ?? ""));
        if (other) return other[1];
      }
    }
    return "";
  }

  /** The saved page, in a frame where it needs a script or was run by others than the reader: there it can reach nothing. */
  function saved(model, notebook) {
    const made = document.createElement("template");
    made.innerHTML = String(model.data[PAGE] ?? "");
    const node = document.createElement("div");
    node.className = "xl-saved";
    const root = made.content.querySelector(".xl-saved");
    const version = /^x\w+$/.exec(root?.dataset.xl ?? "")?.[0];
    const code = version ? codeOf(version, model, notebook) : "";
    if (root && (code || !model.trusted)) node.append(framed(root, code, model.trusted));
    else if (model.trusted) node.append(root ?? made.content);
    return node;
  }

  /** A frame for a saved page. Of an untrusted one it has the page, the title and the height: any other attribute could be a script of Lab's own page. */
  function framed(root, code, trusted) {
    const frame = document.createElement("iframe");
    if (!trusted) frame.setAttribute("sandbox", "allow-scripts");
    frame.setAttribute("title", root.getAttribute("aria-label") ?? "");
    frame.setAttribute("loading", "lazy");
    frame.setAttribute("style", `width:100%;height:${Math.min(Number(root.dataset.tall) || 640, 1000)}px;border:0;display:block`);
    const light = document.body.dataset.jpThemeLight === "false" ? "false" : "true";
    const end = code ? `${script("").replace(">", ' type="application/octet-stream" id="xl-code">').replace("></", `>${code}</`)}${script(start)}` : script(fit);
    frame.setAttribute("srcdoc", `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">` +
      `<body class="xl-page" data-jp-theme-light="${light}">${root.innerHTML}${end}`);
    return frame;
  }

  /** Opens in the live view the tab that is open in the saved one. */
  function sameTab(drawn, live) {
    const open = drawn.querySelector(".xl-tabs [aria-selected=true]")?.textContent;
    for (const tab of open ? live.querySelectorAll(".xl-tabs [role=tab]") : []) if (tab.textContent === open && tab.ariaSelected !== "true") tab.click();
  }

  /** A live view is as tall as the saved one in whose place it comes, so that nothing moves under a reader; until it is used or gets another width. */
  function keepTall(node, tall) {
    const wide = node.clientWidth;
    const kinds = ["click", "input", "keydown"];
    Object.assign(node.style, { height: `${tall}px`, overflow: "hidden auto", scrollbarWidth: "none" });
    const watch = new ResizeObserver(() => node.clientWidth !== wide && free());
    const free = () => {
      watch.disconnect();
      for (const kind of kinds) node.removeEventListener(kind, free);
      Object.assign(node.style, { height: "", overflow: "", scrollbarWidth: "" });
    };
    for (const kind of kinds) node.addEventListener(kind, free);
    watch.observe(node);
  }

  const outputOf = (Panel) => class extends Panel {
    constructor(registry, notebook) {
      super();
      this.registry = registry;
      this.notebook = notebook;
      outputs.add(this);
    }

    async renderModel(model) {
      this.end();
      const page = document.createElement("div");
      this.node.append(page);
      this.timer = setTimeout(() => page.append(saved(model, this.notebook)), soon);
      this.start = () => this.enliven(model, page);
      this.start();
    }

    /** Asks for the live view beside the page, and puts it in its place once it is drawn. */
    async enliven(model, page, again = true) {
      if (!page.parentNode) return; // the live view stands in its place already
      this.seen?.disconnect();
      for (const widget of [...this.widgets]) widget.dispose();
      if (!model.trusted || !this.registry.mimeTypes.includes(LIVE)) return;
      const live = this.registry.createRenderer(LIVE);
      Object.assign(live.node.style, { height: 0, overflow: "hidden", visibility: "hidden" });
      this.addWidget(live);
      this.seen = new MutationObserver(() => {
        if (!live.node.querySelector(".xl-live")) return;
        this.stop();
        const drawn = page.querySelector("iframe")?.contentDocument?.querySelector(".xl-live");
        const tall = drawn ? page.getBoundingClientRect().height : 0;
        if (drawn) sameTab(drawn, live.node);
        page.remove();
        Object.assign(live.node.style, { height: "", overflow: "", visibility: "" });
        if (tall) keepTall(live.node, tall);
      });
      this.seen.observe(live.node, { childList: true, subtree: true, attributes: true, attributeFilter: ["class"] });
      const named = { version_major: 2, version_minor: 0, model_id: model.data[OURS]?.model_id };
      await live.renderModel({ data: { [LIVE]: named, ...model.data }, metadata: {}, trusted: true, setData() {} }).catch(() => {});
      // Lab's renderer looks for a model every tenth of a second, for two seconds: one that came in the last tenth it does not find.
      if (again && !live.isDisposed && live.node.classList.contains("jupyter-widgets") && !live.node.childElementCount) await this.enliven(model, page, false);
    }

    stop() {
      clearTimeout(this.timer);
      this.seen?.disconnect();
    }

    end() {
      this.stop();
      for (const widget of [...this.widgets]) widget.dispose();
      this.node.replaceChildren();
    }

    dispose() {
      if (!this.isDisposed) this.stop();
      outputs.delete(this);
      super.dispose();
    }
  };

  /** Frames that can reach nothing say how tall they are. */
  globalThis.addEventListener("message", ({ data, source }) => {
    const tall = data?.xlabHeight;
    if (typeof tall !== "number") return;
    const frame = [...document.querySelectorAll(".xl-saved iframe")].find((f) => f.contentWindow === source);
    if (frame) frame.style.height = `${Math.min(Math.max(tall, 20), 1000)}px`;
  });

  /** A notebook is saved without the names of live views: a reader that knows only them would show an error in place of the page. */
  function lasting(model) {
    const whole = model.toJSON;
    model.toJSON = function () {
      const made = whole.call(this);
      for (const cell of made.cells ?? []) for (const output of cell.outputs ?? []) if (output.data?.[OURS]) delete output.data[LIVE];
      return made;
    };
  }

  let shared = {};
  const module = async (name) => (await Object.values(shared[name])[0].get())();

  async function extension() {
    const [{ INotebookTracker }, { Panel }] = await Promise.all([module("@jupyterlab/notebook"), module("@lumino/widgets")]);
    const Output = outputOf(Panel);
    const known = new WeakSet();
    const teach = (notebook) => {
      const registry = notebook.content.rendermime;
      if (known.has(registry)) return;
      known.add(registry);
      if (notebook.content.model) lasting(notebook.content.model);
      registry.addFactory({ safe: true, mimeTypes: [OURS], createRenderer: () => new Output(registry, notebook) }, -20);
      // Widgets of a page that is loaded again can be drawn only when the notebook has its manager, and that is told by a new factory.
      const add = registry.addFactory;
      registry.addFactory = function (factory, ...rank) {
        add.call(this, factory, ...rank);
        if (factory.mimeTypes.includes(LIVE)) for (const output of outputs) if (output.registry === registry) output.start?.();
      };
    };
    const plugin = {
      id: "xlab:outputs",
      autoStart: true,
      requires: [INotebookTracker],
      activate: (_app, notebooks) => {
        notebooks.forEach(teach);
        notebooks.widgetAdded.connect((_sender, notebook) => teach(notebook));
      },
    };
    return () => ({ __esModule: true, default: plugin });
  }

  globalThis._JUPYTERLAB = Object.assign(globalThis._JUPYTERLAB ?? {}, {
    xlab: {
      init: (scope) => {
        shared = scope;
      },
      get: extension,
    },
  });
})();
