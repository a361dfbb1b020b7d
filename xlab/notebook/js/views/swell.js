/** Lines from their forms, the form of each, and the numbers that stand in the holes, one hole of one form after the other. */
function linesOf(forms, which, steps) {
  const count = new Array(forms.length).fill(0);
  for (const form of which) count[form] += 1;
  let start = 0;
  const cut = forms.map((form, n) => {
    const parts = form.split("\0");
    const from = start;
    start += (parts.length - 1) * count[n];
    return { parts, from, row: 0, last: new Array(parts.length - 1).fill(0) };
  });
  return which.map((n) => {
    const form = cut[n];
    let text = form.parts[0];
    for (let hole = 0; hole < form.last.length; hole += 1) text += (form.last[hole] += steps[form.from + hole * count[n] + form.row]) + form.parts[hole + 1];
    form.row += 1;
    return text;
  });
}

/** The way back from what packing made of long lists: differences of whole numbers, of rows of them, and lines by their form. */
export function swell(value) {
  if (Array.isArray(value)) return value.length && typeof value[0] === "object" ? value.map(swell) : value;
  if (!value || typeof value !== "object") return value;
  if (Array.isArray(value["~d"])) {
    let at = 0;
    return value["~d"].map((step) => (at += step));
  }
  if (Array.isArray(value["~r"])) {
    const flat = value["~r"];
    const rows = [];
    let first = 0;
    let last = 0;
    for (let i = 0; i < flat.length; ) {
      const row = new Array(flat[i]);
      i += 1;
      for (let j = 0; j < row.length; j += 1, i += 1) row[j] = j ? (last += flat[i]) : (first += flat[i]);
      rows.push(row);
    }
    return rows;
  }
  if (Array.isArray(value["~t"])) return linesOf(...value["~t"]);
  for (const name in value) value[name] = swell(value[name]);
  return value;
}
