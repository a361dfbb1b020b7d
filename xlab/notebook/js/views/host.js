/** The colors of the page around a view. */

/** Inside a frame the host's colors are not inherited: take them over. */
function hostColors(root, host) {
  const from = getComputedStyle(host);
  for (const name of ["layout-color0", "layout-color1", "ui-font-color1", "ui-font-color2", "border-color2", "ui-font-family", "code-font-family"]) {
    root.style.setProperty(`--jp-${name}`, from.getPropertyValue(`--jp-${name}`));
  }
  document.body.style.background = from.getPropertyValue("--jp-layout-color0");
}

/** Follow the host's light or dark theme, also from inside a saved output's frame. */
export function followTheme(root, bin) {
  let host = document.body;
  try {
    if (parent !== window && parent.document.body) host = parent.document.body;
  } catch {
    host = document.body;
  }
  const look = () => {
    // JupyterLab says it in an attribute of the body, VS Code and marimo in a class, Colab in an attribute of the root.
    const light = host.dataset.jpThemeLight;
    const dark = light === "false" || host.classList.contains("vscode-dark") || host.classList.contains("dark") || host.closest("[theme=dark]");
    if (dark) root.dataset.theme = "dark";
    else if (light === "true" || host.classList.contains("vscode-light") || host.classList.contains("light") || host.closest("[theme=light]")) root.dataset.theme = "light";
    if (host !== document.body && light) hostColors(root, host);
  };
  look();
  if (typeof MutationObserver === "function") {
    const watch = new MutationObserver(look);
    watch.observe(host, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
    bin.push(() => watch.disconnect());
  }
}
