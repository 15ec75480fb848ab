// Numbers and times for people.
export const dash = "–";

export function number(value) {
  if (value === null || value === undefined || !isFinite(value)) return dash;
  const size = Math.abs(value);
  if (size >= 1e9) return trim(value / 1e9) + " G";
  if (size >= 1e6) return trim(value / 1e6) + " M";
  if (size >= 1e4) return trim(value / 1e3) + " k";
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
  return trim(value);
}

function trim(value) {
  const shown = Number(value.toPrecision(3));
  return String(Math.abs(shown) >= 1000 ? Math.round(shown) : shown);
}

export function seconds(value) {
  if (value === null || value === undefined || !isFinite(value)) return dash;
  if (value === 0) return "0 s";
  if (value < 1e-3) return trim(value * 1e6) + " µs";
  if (value < 1) return trim(value * 1e3) + " ms";
  if (value < 120) return trim(value) + " s";
  if (value < 7200) return trim(value / 60) + " min";
  if (value < 172800) return trim(value / 3600) + " h";
  return trim(value / 86400) + " d";
}

// Mace counts only the time that rows wait because a host is overloaded.
export function predicted(value, model, worst = value) {
  if (model !== "mace" || value !== 0) return seconds(value);
  return worst ? "no wait" : "no overload";
}

export function share(value) {
  return value === null || value === undefined || !isFinite(value) ? dash : Math.round(value * 100) + " %";
}

export function between(pair, show = seconds) {
  return pair ? `${show(pair[0])} to ${show(pair[1])}` : "";
}

export function clock(epoch, planned, long = false) {
  if (epoch === null || epoch === undefined) return "";
  if (planned) return "at " + seconds(epoch);
  const date = new Date(epoch * 1000), time = date.toLocaleTimeString("en-GB");
  return long ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) + " " + time : time;
}

export function escape(text) {
  return String(text).replace(/[&<>"']/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
}

export function plural(count, one, many = one + "s") {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export const $ = id => document.getElementById(id);
export const hue = index => `var(--h${index % 8})`;
