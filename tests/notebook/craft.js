// What a designer would not accept in a page, found in its DOM: `craft(root)` is a list of `[kind, where, text]`.
(() => {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  /** Red, green, blue and opacity of any color that CSS can say. */
  const color = (text) => {
    if (!known.has(text)) {
      pixel.clearRect(0, 0, 1, 1);
      pixel.fillStyle = "#000";
      pixel.fillStyle = text;
      pixel.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
      known.set(text, [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((part, i) => part * a + below[i] * (1 - a));
  const light = (rgb) => rgb.map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => ([a, b] = [light(a), light(b)], (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  const named = (n) => [n, n.parentElement].map((e) => e.tagName.toLowerCase() + [...(e.classList ?? [])].map((c) => `.${c}`).join("")).join(" < ");

  /** What is painted at a point below an element's letters: its own ancestors, and what lies under them there. */
  function paper(of, x, y) {
    const stack = document.elementsFromPoint(x, y);
    const at = stack.indexOf(of);
    const layers = at >= 0 ? stack.slice(at) : [];
    for (let n = of; n; n = n.parentElement) if (!layers.includes(n)) layers.push(n);
    let rgb = color(getComputedStyle(document.body).backgroundColor)[3] ? over(color(getComputedStyle(document.body).backgroundColor), [255, 255, 255]) : [255, 255, 255];
    for (const n of layers.reverse()) {
      const style = getComputedStyle(n);
      if (n instanceof SVGElement && n.tagName !== "svg") {
        if (n === of || ["text", "tspan", "g", "line"].includes(n.tagName) || style.fill === "none" || style.fill.startsWith("url")) continue;
        const [r, g, b, a] = color(style.fill);
        rgb = over([r, g, b, a * Number(style.fillOpacity) * Number(style.opacity)], rgb);
      } else rgb = over(color(style.backgroundColor), rgb);
    }
    return rgb;
  }

  /** The part of a box that no ancestor cuts off. */
  function shown(box, of) {
    let { left, top, right, bottom } = box;
    for (let n = of; n && n !== document.body; n = n.parentElement) {
      const style = getComputedStyle(n);
      if (n instanceof SVGElement && n.tagName !== "svg") continue;
      const b = n.getBoundingClientRect();
      if (style.overflowX !== "visible") [left, right] = [Math.max(left, b.left), Math.min(right, b.right)];
      if (style.overflowY !== "visible") [top, bottom] = [Math.max(top, b.top), Math.min(bottom, b.bottom)];
      if (style.position === "fixed") break;
    }
    return { left, top, right, bottom, wide: right - left, high: bottom - top };
  }

  const faded = (of) => {
    let all = 1;
    for (let n = of; n; n = n.parentElement) all *= Number(getComputedStyle(n).opacity);
    return all;
  };

  globalThis.craft = (root, least = 4.5, smallest = 8.4) => {
    const found = [];
    const say = (kind, of, text) => found.push([kind, named(of), text.trim().slice(0, 80)]);
    const wide = document.documentElement.scrollWidth - innerWidth;
    if (wide > 0) {
      const out = [...root.querySelectorAll("*")].filter((n) => n.getBoundingClientRect().right > innerWidth + 0.5 && shown(n.getBoundingClientRect(), n.parentElement).right > innerWidth + 0.5);
      say("wider than the window", out.at(-1) ?? root, `${wide} px`);
    }
    const boxes = [];
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const node = walk.currentNode;
      const of = node.parentElement;
      if (!node.data.trim() || ["STYLE", "SCRIPT", "OPTION", "TITLE", "title"].includes(of.tagName)) continue;
      if (!of.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const style = getComputedStyle(of);
      const rects = [...range.getClientRects()].filter((b) => b.width > 1 && b.height > 1);
      if (!rects.length) continue;
      // Cut off with nothing that says the rest: no ellipsis, no title, no bar to scroll by.
      for (let n = of; n && root.contains(n) && n !== root; n = n.parentElement) {
        const s = getComputedStyle(n);
        if (s.display === "inline") continue;
        if (["auto", "scroll"].includes(s.overflowX) || ["auto", "scroll"].includes(s.overflowY)) break;
        if (!["hidden", "clip"].includes(s.overflowX) && !["hidden", "clip"].includes(s.overflowY)) continue;
        const b = n.getBoundingClientRect();
        const cut = rects.some((r) => (r.right > b.right + 1.5 && s.textOverflow !== "ellipsis") || r.bottom > b.bottom + 4 || r.left < b.left - 1.5);
        const told = of.closest("[title],[aria-label],[data-said]") || n.querySelector(":scope > title, :scope > [title]");
        if (cut && !told) say("cut off", of, node.data);
        if (s.textOverflow === "ellipsis" && n.scrollWidth > n.clientWidth + 1 && !told && n.clientWidth < 40) say("nothing left", of, node.data);
        break;
      }
      const seen = rects.map((b) => shown(b, of)).filter((b) => b.wide > 2 && b.high > 4);
      if (!seen.length) continue;
      // One word in a column narrower than it is broken into letters.
      const spread = new Set(rects.map((b) => Math.round(b.top))).size;
      if (spread > 2 && spread > node.data.trim().length / 4) say("squeezed", of, node.data);
      const scale = of.ownerSVGElement ? Math.abs(of.getScreenCTM()?.a ?? 1) : 1;
      const size = parseFloat(style.fontSize) * scale;
      if (!of.closest(".xl-graph") && (size < smallest || size > 17)) say("of an odd size", of, `${size.toFixed(1)} px: ${node.data}`);
      for (const b of seen) boxes.push({ ...b, of, text: node.data });
      const first = seen.find((b) => b.top < innerHeight && b.bottom > 0 && b.left < innerWidth);
      if (of.closest(":disabled, [aria-disabled=true]") || !first) continue;
      let under = paper(of, Math.min(first.left + 3, (first.left + first.right) / 2), (first.top + first.bottom) / 2);
      const [r, g, b, a] = color(of instanceof SVGElement ? style.fill : style.color);
      // Letters with a rim of the paper's color stand on that.
      if (style.paintOrder.startsWith("stroke") && parseFloat(style.strokeWidth) >= 2 && style.stroke !== "none") {
        const [sr, sg, sb, sa] = color(style.stroke);
        under = over([sr, sg, sb, sa * Number(style.strokeOpacity)], under);
      }
      const ratio = contrast(over([r, g, b, a * faded(of) * (of instanceof SVGElement ? Number(style.fillOpacity) : 1)], under), under);
      if (ratio < least - 0.005) say("pale", of, `${ratio.toFixed(2)} ${of instanceof SVGElement ? style.fill : style.color} on ${under.map(Math.round)}: ${node.data}`);
    }
    boxes.sort((a, b) => a.top - b.top);
    for (let i = 0; i < boxes.length; i += 1) {
      for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom - 3; j += 1) {
        const [a, b] = [boxes[i], boxes[j]];
        if (a.of === b.of || a.of.contains(b.of) || b.of.contains(a.of)) continue;
        const [x, y] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
        if (x < 2.5 || y < Math.min(a.bottom - a.top, b.bottom - b.top) * 0.35) continue;
        // What stands on paper of its own in front of the rest, as a menu or a line that stays, covers it and is read.
        const lifted = (n) => n.closest(".xl-status, [popover], .xl-sticky") ?? [...(function* up() { for (let m = n; m && m !== root; m = m.parentElement) yield m; })()].find((m) => ["sticky", "fixed"].includes(getComputedStyle(m).position));
        if (lifted(a.of) !== lifted(b.of)) continue;
        say("over one another", a.of, `${a.text.trim().slice(0, 36)} | ${b.text.trim().slice(0, 36)}`);
      }
    }
    return found;
  };
})();
