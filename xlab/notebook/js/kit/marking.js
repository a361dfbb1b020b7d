import { listen } from "./dom.js";

/** Words are marked with the pointer wherever they stand, also where a press does something: the click that ends marking does nothing else.
 *  A browser marks nothing in an `a` with an address or in a `button`, so words of the user's that are pressed are neither. */

const moves = 3;

/** @param {HTMLElement} root @param {Function[]} bin */
export function letMark(root, bin) {
  for (const [which, role] of [["a", "link"], [".xl-pick", "button"]]) {
    for (const node of root.querySelectorAll(which)) {
      node.setAttribute("role", role);
      node.tabIndex = 0;
    }
  }
  const pressable = (node) => {
    const found = node.closest?.('[role="link"], [role="button"]');
    return found && !/^button$/i.test(found.tagName) ? found : null;
  };
  listen(bin, root, "keydown", (event) => {
    if (!/^(Enter| )$/.test(event.key) || pressable(event.target) !== event.target) return;
    event.preventDefault();
    event.stopPropagation();
    event.target.click();
  }, true);
  let from = null;
  const place = () => {
    const seen = globalThis.getSelection?.();
    return seen && !seen.isCollapsed && root.contains(seen.anchorNode) ? [seen.anchorNode, seen.anchorOffset, seen.focusNode, seen.focusOffset] : null;
  };
  listen(bin, root, "mousedown", (event) => {
    from = { x: event.clientX, y: event.clientY, was: place() };
    // Marking from the edge of its first letter begins before it: to come into focus then would end the marking.
    const node = pressable(event.target);
    if (!node) return;
    node.removeAttribute("tabindex");
    setTimeout(() => { node.tabIndex = 0; });
  }, true);
  listen(bin, root, "click", (event) => {
    // A key's click has no detail, and no place.
    if (!from || !event.detail || Math.abs(event.clientX - from.x) + Math.abs(event.clientY - from.y) <= moves) return;
    // What was marked before does not keep a slider or a chart from being drawn.
    const now = place();
    if (!now || now.every((part, i) => part === from.was?.[i])) return;
    event.stopImmediatePropagation();
    event.preventDefault();
  }, true);
}
