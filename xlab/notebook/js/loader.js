// Every live widget starts here. The module of all views stands in a widget of its own, which even a busy kernel has sent by now;
// a host that does not give that widget asks the kernel. One page makes one module of it, whoever comes first.
const page = (globalThis.__xlab_XLAB_DIGEST ??= {});
const patience = 15000;

function ask(model) {
  return new Promise((resolve) => {
    const hear = (message) => {
      if (message?.module === undefined) return;
      model.off("msg:custom", hear);
      resolve(message);
    };
    model.on("msg:custom", hear);
    model.send({ ask: "module" });
  });
}

async function files(model) {
  try {
    const front = await model.widget_manager.get_model(model.get("front"));
    return { module: front.get("module"), css: front.get("css") };
  } catch {
    // A question that got no answer may have gone to a kernel that is no more: the next view asks its own.
    if (!(Date.now() - page.since < patience)) Object.assign(page, { since: Date.now(), asked: ask(model) });
    return page.asked;
  }
}

async function load({ module, css }) {
  const url = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
  try {
    return { view: (await import(url)).default, css };
  } finally {
    URL.revokeObjectURL(url);
  }
}

export default {
  async render({ model, el }) {
    const note = document.createElement("pre");
    const waiting = setTimeout(() => {
      note.textContent = "xlab: this view is drawn as soon as the kernel answers.";
      el.append(note);
    }, 3000);
    try {
      const sent = await files(model);
      const { view, css } = await (page.made ??= load(sent));
      note.remove();
      const style = document.createElement("style");
      style.textContent = css;
      el.append(style);
      const end = view.render({ model, el });
      return () => {
        end();
        style.remove();
      };
    } catch (error) {
      delete page.made;
      note.textContent = `xlab: this view could not start (${error.message}). Run the cell again.`;
      el.append(note);
    } finally {
      clearTimeout(waiting);
    }
  },
};
