/** Colors for code: Python and compiled text by word. */

const tokens = (comment) => new RegExp(
  [
    comment,
    "(\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*')",
    "((?<![\\w.%@])(?:(?:b?f|i|u|s|c)\\d\\w*|pred|bool|key<\\w+>|float0)\\[[^\\]]*\\](?:\\{[^}]*\\})?|tensor<[^>]*>)",
    "(\\b(?:def|return|for|in|if|else|elif|while|with|import|from|as|is|lambda|not|and|or|True|False|None|class|assert|raise|yield|try|except)\\b)",
    "([%@][\\w.$-]+)",
    "((?<![\\w.])[-+]?\\d+(?:\\.\\d+)?(?:e[-+]?\\d+)?(?![\\w.]))",
  ].join("|"),
  "g",
);
const pythonTokens = tokens("(#.*$)");
const otherTokens = tokens("(#(?!(?:sdy|stablehlo|mhlo|mpmd|loc|map)\\d*[.<)\\d]).*$|//.*$)");
const classes = ["", "c", "s", "t", "k", "w", "n"];

/** A colored piece of a line. */
export function piece(name, text, title) {
  const node = document.createElement("span");
  node.className = `xl-${name}`;
  node.textContent = text;
  if (title) node.title = title;
  return node;
}

/** Append `text` to `node` in colored pieces; `axes` are mesh axis names in order. */
export function colour(node, text, axes = [], language = "python") {
  let at = 0;
  for (const match of text.matchAll(language === "python" ? pythonTokens : otherTokens)) {
    const kind = match.findIndex((m, i) => i && m !== undefined);
    if (kind === 4 && language !== "python") continue;
    if (match.index > at) node.append(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (kind === 3 && axes.length) typePieces(node, match[0], axes);
    else node.append(piece(classes[kind], match[0]));
  }
  if (at < text.length) node.append(text.slice(at));
}

/** A type, its mesh axes colored. */
export function typePieces(node, text, axes) {
  const whole = piece("t", "");
  for (const part of text.split(/(@[\w+]+)/)) {
    const name = part[0] === "@" ? part.slice(1).split("+")[0] : "";
    const at = axes.indexOf(name);
    if (at >= 0) whole.append(piece(`ax xl-ax${at % 6}`, part));
    else whole.append(part);
  }
  node.append(whole);
}

/** Append text with what was searched for marked. */
export function marked(node, text, needle) {
  const at = needle ? text.toLowerCase().indexOf(needle) : -1;
  if (at < 0) node.append(text);
  else {
    const mark = document.createElement("mark");
    mark.textContent = text.slice(at, at + needle.length);
    node.append(text.slice(0, at), mark);
    marked(node, text.slice(at + needle.length), needle);
  }
}

const quiet = /, (?:metadata|backend_config|frontend_attributes|origin|sharding)=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\}|\{(?:[^{}]|\{[^{}]*\})*\})*\}/g;

/** A line of compiled text without what the compiler keeps for itself. */
export function shortHlo(text) {
  return text.includes("={") ? text.replace(quiet, "") : text;
}
