/** Numbers as the text forms write them: three significant digits and a unit. */

export function significant(value, trim = false) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) return value.toExponential(2).replace("-", "−");
  const log = Math.floor(Math.log10(+size.toPrecision(3)));
  const text = value.toFixed(Math.max(0, 2 - log));
  return (trim && text.includes(".") ? text.replace(/\.?0+$/, "") : text).replace("-", "−");
}

export function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  while (Math.abs(count) >= 999.5 && i < 4) {
    count /= 1000;
    i += 1;
  }
  return `${significant(count, true)} ${units[i]}`;
}

export function micros(us) {
  if (us < 999.5) return `${significant(us)} µs`;
  return us < 999500 ? `${significant(us / 1e3)} ms` : `${significant(us / 1e6)} s`;
}

/** A float as records write it: a number, or {float: "nan"}. */
export function real(value) {
  if (value && typeof value === "object") return value.float === "nan" ? NaN : value.float === "-inf" ? -Infinity : Infinity;
  return value;
}
