import { marked, piece, typePieces } from "../kit/code.js";

/** Colors for a line of a jaxpr: by position, since any letter may be a variable there. */

const manyOutputs = 3;
const made = /(\s*)([\w.]+):((?:Todo|Ref(?:<\w+>)?)\{[a-z]\w*(?:<\w+>)?(?:\[[^\]]*\])?(?:\{[^}]*\})?\}|[a-z]\w*(?:<\w+>)?(?:\[[^\]]*\])?(?:\{[^}]*\})?)/y;

/**
 * A line of a jaxpr cut by position: `[kind, text]` with kinds v variable, t type, o primitive, p parameters, n literal, k word of ours, "" the rest.
 * @param {string} text @param {boolean} equation whether it is an equation and not a head or an end
 */
export function jaxprPieces(text, equation) {
  const out = [];
  let at = 0;
  const pairs = () => {
    for (made.lastIndex = at; ; made.lastIndex = at) {
      const found = made.exec(text);
      if (!found) return;
      if (found[1]) out.push(["", found[1]]);
      out.push(["v", found[2]], ["", ":"], ["t", found[3]]);
      at = made.lastIndex;
    }
  };
  const operands = (rest) => {
    for (const part of rest.split(/(\s+)/)) {
      if (part) out.push([/^\s/.test(part) ? "" : /^[A-Za-z_][\w.]*$/.test(part) ? "v" : "n", part]);
    }
  };
  if (!equation) {
    const word = /^(?:(?:in|const) {2}|out\b|→|[^:]*?(?= [\w.]+:|$))/.exec(text)?.[0] ?? "";
    out.push(["k", word]);
    at = word.length;
    if (word === "→" || word === "out") operands(text.slice(at));
    else {
      pairs();
      if (at < text.length) out.push(["c", text.slice(at)]);
    }
    return out;
  }
  pairs();
  if (at && text.startsWith(" = ", at)) {
    out.push(["", " = "]);
    at += 3;
  } else if (at) {
    out.length = 0;
    at = 0;
  }
  const op = /[^\s[]+/y;
  op.lastIndex = at;
  const name = op.exec(text)?.[0] ?? "";
  out.push(["o", name]);
  at += name.length;
  if (text[at] === "[") {
    const end = closing(text, at);
    out.push(["p", text.slice(at, end)]);
    at = end;
  }
  operands(text.slice(at));
  return out;
}

function closing(text, at) {
  let depth = 0;
  let quote = "";
  for (let i = at; i < text.length; i += 1) {
    const c = text[i];
    if (quote) quote = c === quote ? "" : quote;
    else if (c === "'" || c === '"') quote = c;
    else if (c === "[" || c === "(" || c === "{") depth += 1;
    else if ((c === "]" || c === ")" || c === "}") && (depth -= 1) === 0) return i + 1;
  }
  return text.length;
}

const silent = /=(?:None|False|\(\)|UNSPECIFIED)$|^(?:preferred_element_type|precision|accuracy|out_sharding|ctx_mesh|name)=/;

/** Parameters short enough to read past: those that say something and fit, then a sign that there are more. */
export function shortParams(text, most = 30) {
  const parts = text.slice(1, -1).split(/ (?=\w+=)/);
  let kept = "";
  let left = 0;
  for (const part of parts) {
    if ((part.startsWith("name=") || !silent.test(part)) && kept.length + part.length <= most) kept += kept ? ` ${part}` : part;
    else left += 1;
  }
  return left ? `[${kept}${kept ? " " : ""}…]` : text;
}

/** A scalar as read, not as stored: its type and far digits are in its title. */
function shortLiteral(text) {
  const found = /^(-?[\d.]+(?:e[-+]?\d+)?):\w+\[\]$/.exec(text);
  if (!found) return text;
  return /\d\.\d{5,}/.test(found[1]) ? String(+(+found[1]).toPrecision(5)) : found[1];
}

/** Paint one line of a jaxpr. `shown(name)` is what a variable is called on the screen; `same` is the name to mark, `whole` keeps all parameters. */
export function paintJaxpr(node, text, equation, { axes = [], shown = (n) => n, same = "", whole = false, needle = "" }) {
  let called = "";
  let pieces = jaxprPieces(text, equation);
  const op = pieces.findIndex(([kind]) => kind === "o");
  const outputs = equation && !whole ? pieces.slice(0, op).filter(([kind]) => kind === "v").length : 0;
  if (outputs > manyOutputs) {
    // Two of many results, so that what made them is in sight.
    const third = pieces.findIndex(([kind], i) => kind === "v" && pieces.slice(0, i).filter(([k]) => k === "v").length === 2);
    pieces = [...pieces.slice(0, third), ["c", `+${outputs - 2}`], ["", " = "], ...pieces.slice(op)];
  }
  for (const [kind, part] of pieces) {
    if (kind === "v") called = shown(part);
    if (kind === "c" && part.trim() === called) continue;
    if (kind === "v") {
      const span = piece(`v${part === same ? " xl-same" : ""}`, "");
      span.dataset.v = part;
      marked(span, shown(part), needle);
      node.append(span);
    } else if (kind === "t") typePieces(node, part, axes);
    else if (kind === "o") marked(node.appendChild(piece("op", "")), part, needle);
    else if (kind === "p") {
      const short = whole ? part : shortParams(part);
      marked(node.appendChild(piece("p", "", short === part ? "" : part)), short, needle);
    } else if (kind === "n" && !whole) {
      const short = shortLiteral(part);
      marked(node.appendChild(piece("n", "", short === part ? "" : part)), short, needle);
    } else if (kind) marked(node.appendChild(piece(kind, "")), part, needle);
    else node.append(part);
  }
}
