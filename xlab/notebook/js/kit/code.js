/** Colours for code: types with their mesh axes, numbers, strings, comments, words of the language. */

const token = new RegExp(
  [
    "(#.*$|//.*$)",
    "(\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*')",
    "((?<![\\w.%@])(?:(?:b?f|i|u|s|c)\\d\\w*|pred|bool|key<\\w+>|float0)\\[[^\\]]*\\](?:\\{[^}]*\\})?|tensor<[^>]*>)",
    "(\\b(?:def|return|for|in|if|else|elif|while|with|import|from|as|lambda|not|and|or|True|False|None|class|assert|let)\\b)",
    "([%@][\\w.$-]+)",
    "((?<![\\w.])[-+]?\\d+(?:\\.\\d+)?(?:e[-+]?\\d+)?(?![\\w.]))",
  ].join("|"),
  "g",
);
const classes = ["", "c", "s", "t", "k", "v", "n"];

function piece(name, text) {
  const node = document.createElement("span");
  node.className = `xl-${name}`;
  node.textContent = text;
  return node;
}

/** Append `text` to `node` in coloured pieces; `axes` are mesh axis names in order. */
export function colour(node, text, axes = [], operator = "") {
  let at = 0;
  const plain = (to) => {
    if (to > at) {
      const part = text.slice(at, to);
      const where = operator ? part.indexOf(operator) : -1;
      if (where < 0) node.append(part);
      else node.append(part.slice(0, where), piece("op", operator), part.slice(where + operator.length));
      if (where >= 0) operator = "";
    }
  };
  for (const match of text.matchAll(token)) {
    plain(match.index);
    const kind = match.findIndex((m, i) => i && m !== undefined);
    at = match.index + match[0].length;
    if (kind === 3 && axes.length) typePieces(node, match[0], axes);
    else node.append(piece(classes[kind], match[0]));
  }
  plain(text.length);
}

function typePieces(node, text, axes) {
  const whole = piece("t", "");
  for (const part of text.split(/(@[\w+]+)/)) {
    const name = part[0] === "@" ? part.slice(1).split("+")[0] : "";
    const at = axes.indexOf(name);
    if (at >= 0) whole.append(piece(`ax xl-ax${at % 6}`, part));
    else whole.append(part);
  }
  node.append(whole);
}
