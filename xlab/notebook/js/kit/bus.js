/** One selection for the whole report. A key is "program:equation"; the first key is the one chosen. */

/** @returns {{keys: string[], select(keys: string[], from?: any): void, on(run: Function): void}} */
export function makeBus() {
  const hearers = [];
  const bus = {
    keys: [],
    select(keys, from) {
      bus.keys = keys;
      for (const run of hearers) run(keys, from);
    },
    on(run) {
      hearers.push(run);
    },
  };
  return bus;
}

/** Light every drawn element that belongs to the selection, or to its function; `seen` is given those that are lit. */
export function lightElements(root, bus, functionOf = () => "", seen = () => {}) {
  let lit = [];
  bus.on((keys) => {
    for (const node of lit) node.classList.remove("xl-sel", "xl-lnk");
    lit = [];
    keys.slice(0, 200).forEach((key, i) => {
      for (const node of root.querySelectorAll(`[data-eq~="${key}"]`)) {
        node.classList.add(i ? "xl-lnk" : "xl-sel");
        lit.push(node);
      }
    });
    const name = keys.length ? functionOf(keys[0]) : "";
    for (const node of name ? root.querySelectorAll("[data-fn]") : []) {
      if (node.dataset.fn !== name) continue;
      node.classList.add("xl-lnk");
      lit.push(node);
    }
    seen(lit);
  });
}
