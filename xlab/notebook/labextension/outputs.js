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

  /** The saved page; one that was run by others than the reader stands in a frame of our own, which can reach nothing. */
  function saved(model) {
    const made = document.createElement("template");
    made.innerHTML = String(model.data[PAGE] ?? "");
    const node = document.createElement("div");
    node.className = "xl-saved";
    if (model.trusted) node.append(made.content);
    else {
      const page = made.content.querySelector("iframe")?.getAttribute("srcdoc");
      if (page) node.append(apart(page, made.content.querySelector("iframe")));
    }
    return node;
  }

  /** A frame for a page of others. Of theirs it has the page, the title and the height: any other attribute could be a script of Lab's own page. */
  function apart(page, theirs) {
    const frame = document.createElement("iframe");
    const tall = Number(/height:\s*(\d+)px/.exec(theirs.getAttribute("style") ?? "")?.[1] ?? 640);
    frame.setAttribute("sandbox", "allow-scripts");
    frame.setAttribute("title", theirs.getAttribute("title") ?? "");
    frame.setAttribute("loading", "lazy");
    frame.setAttribute("style", `width:100%;height:${Math.min(tall, 1000)}px;border:0`);
    frame.setAttribute("srcdoc", `<!doctype html><meta http-equiv="Content-Security-Policy" content="${POLICY}">${page}`);
    return frame;
  }

  const outputOf = (Panel) => class extends Panel {
    constructor(registry) {
      super();
      this.registry = registry;
      outputs.add(this);
    }

    async renderModel(model) {
      this.end();
      const page = document.createElement("div");
      this.node.append(page);
      this.timer = setTimeout(() => page.append(saved(model)), soon);
      this.start = () => this.enliven(model, page);
      this.start();
    }

    /** Asks for the live view beside the page, and puts it in its place once it is drawn. */
    enliven(model, page) {
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
        page.remove();
        Object.assign(live.node.style, { height: "", overflow: "", visibility: "" });
      });
      this.seen.observe(live.node, { childList: true, subtree: true, attributes: true, attributeFilter: ["class"] });
      live.renderModel(model).catch(() => {});
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
      registry.addFactory({ safe: true, mimeTypes: [OURS], createRenderer: () => new Output(registry) }, -20);
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
