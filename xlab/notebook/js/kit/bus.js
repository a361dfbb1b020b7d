/** One selection for the whole report. A key is "program:equation"; the first key is the one chosen. Where it is all that a call made, `call` says
 * which: "program:call" with f or b for one of its passes. */

/** @returns {{keys: string[], call: string, select(keys: string[], from?: any, call?: string): void, on(run: Function): void}} */
export function makeBus() {
  const hearers = [];
  const bus = {
    keys: [],
    call: "",
    select(keys, from, call = "") {
      bus.keys = keys;
      bus.call = call;
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
    const named = bus.call && (/\d$/.test(bus.call) ? [bus.call, `${bus.call}f`, `${bus.call}b`] : [bus.call, bus.call.slice(0, -1)]);
    for (const node of named ? root.querySelectorAll(named.map((call) => `[data-call="${call}"]`).join()) : []) {
      node.classList.add("xl-sel");
      lit.push(node);
    }
    const name = keys.length ? functionOf(keys[0]) : "";
    for (const node of name ? root.querySelectorAll("[data-fn]") : []) {
      if (node.dataset.fn !== name) continue;
      node.classList.add("xl-lnk");
      lit.push(node);
    }
    seen(lit);
  });
}
