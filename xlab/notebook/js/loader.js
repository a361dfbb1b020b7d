// Every live widget starts here. The joined module of all views comes from the kernel once per page, whoever asks first.
const shared = "__xlab_XLAB_DIGEST";

function fetchModule(model) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => done(reject, new Error("the kernel did not answer")), 15000);
    const done = (settle, value) => {
      clearTimeout(timer);
      model.off("msg:custom", hear);
      settle(value);
    };
    const hear = (message) => {
      if (!message || message.module === undefined) return;
      const url = URL.createObjectURL(new Blob([message.module], { type: "text/javascript" }));
      import(url).then((m) => done(resolve, { view: m.default, css: message.css }), (e) => done(reject, e)).finally(() => URL.revokeObjectURL(url));
    };
    model.on("msg:custom", hear);
    model.send({ ask: "module" });
  });
}

export default {
  async render({ model, el }) {
    try {
      globalThis[shared] ??= fetchModule(model);
      const { view, css } = await globalThis[shared];
      const style = document.createElement("style");
      style.textContent = css;
      el.append(style);
      const end = view.render({ model, el });
      return () => {
        end();
        style.remove();
      };
    } catch (error) {
      delete globalThis[shared];
      const note = document.createElement("pre");
      note.textContent = `xlab: this view could not start (${error.message}). Run the cell again.`;
      el.append(note);
    }
  },
};
