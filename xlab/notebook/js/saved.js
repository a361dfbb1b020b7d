// Draws the saved pictures of this version, wherever in the page they stand: each in a frame of its own, with the script that the page has once.
(() => {
  let code;
  globalThis.xlab_XLAB_VERSION ??= () => {
    code ??= document.querySelector("[data-xl-code=XLAB_VERSION]")?.textContent;
    for (const root of code ? document.querySelectorAll("[data-xl=XLAB_VERSION]") : []) {
      const frame = document.createElement("iframe");
      delete root.dataset.xl;
      Object.assign(frame, { title: root.getAttribute("aria-label"), loading: "lazy" });
      frame.style.cssText = `width:100%;height:${root.dataset.tall}px;border:0;display:block`;
      frame.srcdoc = `XLAB_HEAD${root.innerHTML}<script type="application/octet-stream" id="xl-code">${code}</` + `script><script>XLAB_UNPACK</` + `script>`;
      root.replaceChildren(frame);
    }
  };
  globalThis.xlab_XLAB_VERSION();
})();
