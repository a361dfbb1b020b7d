import { h, icon, still } from "../kit/dom.js";

/**
 * Buttons and a slider over `length` frames: back, forwards, play. `show(i)` draws a frame.
 * @param {{length: number, label: string, show(i: number, moving: boolean): void, bin: Function[], pace?: number, name?(i: number): string}} options
 */
export function makePlayer({ length, label, show, bin, pace = 700, name }) {
  let at = 0;
  let timer = 0;
  const text = h("output", { class: "xl-dim" });
  const slider = h("input", { type: "range", min: 0, max: Math.max(0, length - 1), value: 0, "aria-label": label, input: () => go(+slider.value, false) });
  const button = (sign, title, run) => h("button", { type: "button", title, "aria-label": title, click: run }, icon(sign));
  const play = button("play", "play", () => (timer ? stop() : start()));
  const go = (i, moving) => {
    at = Math.max(0, Math.min(length - 1, i));
    slider.value = String(at);
    text.textContent = ` ${name ? name(at) : `${label} ${at + 1} of ${length}`}`;
    show(at, moving && !still());
  };
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.replaceChildren(icon("play"));
  }
  function start() {
    play.replaceChildren(icon("pause"));
    go(at >= length - 1 ? 0 : at, true);
    timer = setInterval(() => {
      if (at >= length - 1 && length > 1) stop();
      else go(length > 1 ? at + 1 : 0, true);
    }, pace);
  }
  bin.push(stop);
  const el = h("div", { class: "xl-player", role: "group", "aria-label": label },
    button("first", "back one", () => (stop(), go(at - 1, false))), play, button("last", "forwards one", () => (stop(), go(at + 1, true))), length > 1 ? slider : null, text);
  go(0, false);
  return { el, go, stop };
}
