/** Whether anybody still looks at a live view, so that the kernel can let go of what a deleted output held. */

/** How many views of a widget this page shows, by its payload: a copied output is another view. */
const shown = new WeakMap();
const settled = 500;

/**
 * Tell the kernel that somebody looks, answer when it asks, and tell it when nobody on this page looks any more.
 * Only where that can be known: in a notebook that stays while its output goes. A notebook that is closed may be opened again.
 */
export function watched(model, el, bin) {
  if (!model?.send) return;
  const key = model.get("payload");
  const here = () => model.send({ ask: "here" });
  const hear = (message) => message?.roll && here();
  const find = () => el.closest?.(".jp-Notebook") ?? null;
  let notebook = find();
  const timer = setTimeout(() => (notebook ??= find()), settled);     // a host may draw before it shows
  timer.unref?.();
  shown.set(key, (shown.get(key) ?? 0) + 1);
  model.on("msg:custom", hear);
  here();
  bin.push(() => {
    clearTimeout(timer);
    notebook ??= find();
    model.off("msg:custom", hear);
    shown.set(key, shown.get(key) - 1);
    if (notebook) setTimeout(() => notebook.isConnected && !shown.get(key) && model.send({ ask: "gone" }), settled).unref?.();
  });
}
