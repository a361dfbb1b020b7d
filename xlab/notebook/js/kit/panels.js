const mounts = new Map();

/** The file of a view says here which tab it brings to life. `mount(section, page)` gets the tab's element and what the page shares: its
 * `data` and `programs`, the `bus` of the selection, the `model` of a kernel or null, the `bin` of what ends with the page, `say` for the
 * status line, `failing` for one part of several, `open` and `part` for another tab. It may return a part that takes keys: `key(name)`. */
export function definePanel(name, mount) {
  mounts.set(name, mount);
}

/** What brings a tab to life, where anything does. */
export const mountOf = (name) => mounts.get(name);
