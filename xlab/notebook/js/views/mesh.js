import { listen } from "../kit/dom.js";

/** Hover or focus a block: everything the same devices hold lights up beside it. */
export function linkDevices(root, say, bin) {
  let hot = [];
  const clear = () => {
    for (const node of hot) node.classList.remove("xl-hot");
    hot = [];
  };
  const point = (event) => {
    clear();
    const tip = event.target.closest?.("[data-tip]");
    const block = event.target.closest?.("[data-dev]");
    say(tip ? tip.dataset.tip : block?.querySelector("title")?.textContent || "");
    if (!block) return;
    const scope = block.closest(".xl-layout, .xl-stage") || root;
    for (const device of block.dataset.dev.split(" ").slice(0, 64)) {
      for (const node of scope.querySelectorAll(`[data-dev~="${device}"]`)) {
        node.classList.add("xl-hot");
        hot.push(node);
      }
    }
  };
  listen(bin, root, "pointerover", point);
  listen(bin, root, "focusin", point);
  listen(bin, root, "pointerleave", () => (clear(), say("")));
}
