// Small line charts over one common time, in SVG. Only paths are rebuilt when figures come.
import { number, seconds, share, escape, clock } from "./words.js";

const HEIGHT = 170, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 20;
const SHOW = { seconds, share, number };

export class Chart {
  // lines: [{label, colour, form: line|dash|dot|band, data: () => [] or [[low],[high]]}]
  constructor(parent, title, unit, show, { full = null, most = Infinity, pick = () => {} } = {}) {
    Object.assign(this, { title, unit, show: SHOW[show], timed: show === "seconds", full, most, lines: [], time: null, cursor: null });
    this.figure = document.createElement("figure");
    this.figure.className = "chart";
    this.figure.innerHTML = `<figcaption><b>${escape(title)} <small>${escape(unit)}</small></b></figcaption><svg role="img" preserveAspectRatio="none"></svg>`;
    [this.caption, this.svg] = this.figure.children;
    parent.append(this.figure);
    const at = event => {
      const box = this.svg.getBoundingClientRect();
      if (this.time) pick(Math.round((event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT) * (this.time.count - 1)));
    };
    this.svg.addEventListener("pointerdown", at);
    this.svg.addEventListener("pointermove", event => { if (event.buttons) at(event); });
    this.width = parent.clientWidth > 800 ? parent.clientWidth / 2 - 40 : parent.clientWidth - 32;
    this.seen = new ResizeObserver(([entry]) => { if (entry.contentRect.width !== this.width) { this.width = entry.contentRect.width; this.draw(); } });
    this.seen.observe(this.svg);
  }

  set(lines) {
    this.lines = lines;
    for (const key of this.caption.querySelectorAll(".key")) key.remove();
    this.caption.insertAdjacentHTML("beforeend", lines.map(line =>
      `<span class="key" style="--c:${line.colour}"><i class="${{ dash: "dash", dot: "dot", band: "fill" }[line.form] ?? ""}"></i>${escape(line.label)} <span></span></span>`).join(""));
    this.values = [...this.caption.querySelectorAll(".key span")];
  }

  update(time, cursor) {
    this.time = time;
    this.cursor = cursor;
    this.draw();
  }

  draw() {
    if (!this.time || !this.figure.isConnected) return;
    const width = this.width || 600, { count } = this.time;
    const rows = this.lines.map(line => line.form === "band" ? line.data() : [line.data()]);
    let top = this.full ?? 0;
    for (const part of rows) for (const row of part) for (const value of row ?? []) if (value > top) top = value;
    const [limit, ticks] = scale(Math.min(top || 1, this.most), this.timed);
    const x = k => LEFT + (width - LEFT - RIGHT) * (count > 1 ? k / (count - 1) : 0);
    const y = value => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.min(value, limit) / limit);
    const out = [];
    for (const tick of ticks) out.push(`<line class="axis" x1="${LEFT}" x2="${width - RIGHT}" y1="${y(tick)}" y2="${y(tick)}"/><text class="tick" x="${LEFT - 6}" y="${y(tick) + 4}" text-anchor="end">${this.show(tick)}</text>`);
    for (const [place, text] of times(this.time, width - LEFT - RIGHT)) out.push(`<text class="tick" x="${x(place)}" y="${HEIGHT - 5}" text-anchor="${place > count - count / 12 ? "end" : place < count / 12 ? "start" : "middle"}">${text}</text>`);
    if (this.full !== null) out.push(`<line class="full" x1="${LEFT}" x2="${width - RIGHT}" y1="${y(this.full)}" y2="${y(this.full)}"/>`);
    this.lines.forEach((line, n) => {
      const part = rows[n];
      if (!part.every(row => row)) return;
      if (line.form === "band") out.push(`<path d="${band(part[0], part[1], x, y)}" style="fill:${line.colour}"/>`);
      else if (line.form === "dot") out.push(`<path d="${dots(part[0], x, y)}" style="stroke:${line.colour};stroke-width:4.4;stroke-linecap:round;fill:none"/>`);
      else out.push(`<path d="${path(part[0], x, y)}" style="stroke:${line.colour};stroke-width:1.7;fill:none${line.form === "dash" ? ";stroke-dasharray:4 3" : ";stroke-linecap:round"}" stroke-linejoin="round"/>`);
    });
    if (this.cursor !== null) out.push(`<line class="cursor" x1="${x(this.cursor)}" x2="${x(this.cursor)}" y1="${TOP - 4}" y2="${HEIGHT - BOTTOM}"/>`);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.innerHTML = out.join("");
    const at = this.cursor ?? count - 1, said = [];
    this.lines.forEach((line, n) => {
      const values = rows[n].map(row => this.cursor === null ? lately(row) : row?.[at]);
      const text = values.some(value => value === null || value === undefined) ? "" : line.form === "band" ? `${this.show(values[0])}–${this.show(values[1])}` : this.show(values[0]);
      if (this.values[n].textContent !== text) this.values[n].textContent = text;
      this.values[n].parentElement.hidden = line.form === "band" && !rows[n].every(row => row);
      if (text) said.push(`${line.label} ${text}`);
    });
    this.svg.setAttribute("aria-label", `${this.title}, ${this.unit}: ${said.join(", ") || "nothing yet"}`);
  }
}

function lately(row) {
  for (let k = (row?.length ?? 0) - 1; k >= 0; k--) if (row[k] !== null && row[k] !== undefined) return row[k];
  return null;
}

function path(row, x, y) {
  let out = "", pen = false;
  row.forEach((value, k) => {
    if (value === null || value === undefined) { pen = false; return; }
    out += `${pen ? "L" : "M"}${x(k).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!pen && (row[k + 1] ?? null) === null) out += "h0";  // a value alone is a point
    pen = true;
  });
  return out;
}

function dots(row, x, y) {
  return row.map((value, k) => value === null || value === undefined ? "" : `M${x(k).toFixed(1)} ${y(value).toFixed(1)}h0`).join("");
}

function band(low, high, x, y) {
  let out = "", from = -1;
  const close = to => {
    const there = [], back = [];
    for (let k = from; k < to; k++) { there.push(`${x(k).toFixed(1)} ${y(high[k]).toFixed(1)}`); back.unshift(`${x(k).toFixed(1)} ${y(low[k]).toFixed(1)}`); }
    out += `M${there.join("L")}L${back.join("L")}Z`;
  };
  for (let k = 0; k <= low.length; k++) {
    const on = k < low.length && low[k] !== null && low[k] !== undefined && high[k] !== null;
    if (on && from < 0) from = k;
    if (!on && from >= 0) { close(k); from = -1; }
  }
  return out;
}

function scale(top, timed) {
  const rough = top / 3, power = 10 ** Math.floor(Math.log10(rough));
  const steps = timed && top > 120 ? [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800, 2592000] : [1, 2, 2.5, 5, 10].map(part => part * power);
  const step = steps.find(each => each >= rough * 0.999) ?? rough;
  const count = Math.max(1, Math.ceil(top * 0.96 / step)), ticks = [];
  for (let k = 0; k <= count; k++) ticks.push(k * step);
  return [Math.max(count * step, top * 1.02), ticks];
}

function times({ start, step, count, planned }, width) {
  const span = step * count, want = Math.max(2, Math.floor(width / 110));
  const gap = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].find(each => span / each <= want) ?? 2592000;
  const found = [], shift = planned ? 0 : -new Date(start * 1000).getTimezoneOffset() * 60;
  for (let at = Math.ceil((start + shift) / gap) * gap - shift; at < start + span; at += gap) {
    const date = new Date(at * 1000);
    const text = planned ? seconds(at) : gap >= 86400 ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })
      : date.toLocaleTimeString("en-GB", gap < 60 ? {} : { hour: "2-digit", minute: "2-digit" });
    found.push([Math.min(count - 1, (at - start) / step), text]);
  }
  return found;
}

export { clock };
