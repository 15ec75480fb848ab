// The network: hosts are lanes, operators boxes, streams curves whose width follows the rate.
import { $, number, seconds, share, escape, hue } from "./words.js";
import { inflow, outflow, indices } from "./figures.js";

const BOX = { w: 138, h: 36 }, GAP = { x: 74, y: 14 }, PAD = { x: 14, top: 24 };
const LABELLED = 60, LINE = 13;
const FIT = "fit";  // all of it, however small: at first it can be read

const PLAIN = 300;  // from so many operators on a box is but a box with a name: drawing stays quick

let about = null, parts = null, zoom = 0, chosen = null, room = 900, many = 0;

const across = column => PAD.x + column * (BOX.w + GAP.x) + BOX.w / 2;
const down = row => PAD.top + row * (BOX.h + GAP.y);

export function draw(next) {
  about = next;
  many = Object.keys(about.operators).length;
  const { places, lanes, columns, rows } = about.layout, hosts = about.host_order;
  const width = 2 * PAD.x + columns * BOX.w + (columns - 1) * GAP.x, height = down(rows) + 14;
  const body = [], names = [], labels = about.streams.length <= LABELLED;
  const inner = PAD.x + BOX.w + GAP.x / 2 - 12, outer = width - inner;
  for (const [host, [top, tall]] of Object.entries(lanes)) {
    const y = down(top) - 19, h = tall * (BOX.h + GAP.y) + 22;
    const color = `style="--c:${tint(host)}"`;
    body.push(`<rect class="lane" ${color} x="${inner}" y="${y}" width="${outer - inner}" height="${h}" rx="8"/>`);
    names.push(`<text class="lane-name" ${color} x="${inner + 10}" y="${y + 15}" data-lane="${hosts.indexOf(host)}">${escape(host)}</text>`);
  }
  about.streams.forEach((stream, k) => {
    const [a, b] = [places[stream.writer], places[stream.reader]];
    const x0 = across(a[0]) + BOX.w / 2, y0 = down(a[1]), x1 = across(b[0]) - BOX.w / 2, y1 = down(b[1]);
    const bend = Math.max(24, (x1 - x0) / 2);
    const host = about.placement[stream.writer];
    body.push(`<path class="stream${stream.crosses ? " crosses" : ""}" data-s="${k}" ${host ? `style="--c:${tint(host)}"` : ""} d="M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}"/>`);
  });
  body.push(...names);
  if (labels) about.streams.forEach((stream, k) => {
    const b = places[stream.reader];
    const x = across(b[0]) - BOX.w / 2 - 5;
    body.push(`<text class="rate" data-r="${k}" text-anchor="end"><tspan x="${x}"></tspan><tspan x="${x}" dy="${LINE}"></tspan></text>`);
  });
  for (const name of about.sources) body.push(node(name, "source", "source", null));
  for (const [name, operator] of Object.entries(about.operators)) body.push(node(name, "operator", kindOf(operator), about.placement[name]));
  for (const name of Object.keys(about.sinks)) body.push(node(name, "sink", "sink", null));
  const canvas = $("canvas");
  parts = { width, height };
  const [w, h] = size();
  canvas.innerHTML = `<svg width="${w}" height="${h}" viewBox="0 0 ${width} ${height}" role="group" aria-label="${escape(about.name)}: ${Object.keys(about.operators).length} operators on ${hosts.length} hosts">${body.join("")}</svg>`;
  const svg = canvas.firstElementChild, byIndex = (selector, key) => {
    const found = [];
    for (const each of svg.querySelectorAll(selector)) found[Number(each.dataset[key])] = each;
    return found;
  };
  parts = { ...parts, svg, paths: byIndex(".stream", "s"), rates: byIndex(".rate", "r"), lanes: byIndex(".lane-name", "lane"),
            nodes: [...svg.querySelectorAll(".node")], shown: [] };
  if (parts.nodes.length) parts.nodes[0].setAttribute("tabindex", "0");
  chosen = null;
  $("table").open && table(null);
}

function labelRow(k, drops) {
  // Above and below the point where the streams meet, in the order in which they come; what drops has two lines.
  const { streams, layout: { places } } = about, { reader } = streams[k], mine = indices(about, stream => stream.reader === reader);
  mine.sort((a, b) => places[streams[a].writer][1] - places[streams[b].writer][1]);
  const at = mine.indexOf(k), above = Math.ceil(mine.length / 2);
  const tall = (from, to) => mine.slice(from, to).reduce((sum, each) => sum + (drops[each] ? 2 : 1), 0) * LINE;
  return down(places[reader][1]) + (at < above ? LINE - 4 - tall(at, above) : 11 + tall(above, at));
}

function tint(host) {
  const index = about.host_order.indexOf(host);
  return index < 0 ? "var(--soft)" : hue(index);
}

function kindOf(operator) {
  return operator.kind + (operator.cost === null ? "" : " · " + price(operator));
}

// Below its resolution a cost cannot be told from nothing.
function price(operator) {
  return operator.cost < operator.resolution ? "< " + seconds(operator.resolution) : seconds(operator.cost);
}

function node(name, role, below, host) {
  const [column, row] = about.layout.places[name], x = across(column) - BOX.w / 2, y = down(row) - BOX.h / 2;
  const shown = name.length > 19 ? name.slice(0, 18) + "…" : name;
  return `<g class="node${role === "operator" ? "" : " end"}${many > PLAIN && host ? " plain" : ""}" data-n="${escape(name)}" role="button" tabindex="-1" aria-label="${escape(role + " " + name + (host ? " on " + host : ""))}" ` +
    `${host ? `style="--c:${tint(host)}"` : ""} transform="translate(${x} ${y})"><rect class="box" width="${BOX.w}" height="${BOX.h}" rx="5"/>` +
    (many > PLAIN ? `<text class="title" x="12" y="22">${escape(shown)}</text></g>` :
      `<rect class="edge" width="4" height="${BOX.h}" rx="2"/><text class="title" x="12" y="15">${escape(shown)}</text><text class="kind" x="12" y="29">${escape(below)}</text></g>`);
}

// rates, keep: of one moment, by index of the stream; busy by index of the host.
export function show({ rates, keep, busy }) {
  if (!parts) return;
  const dropping = keep.map(kept => kept !== null && kept !== undefined && kept < 0.9995);
  about.streams.forEach((_, k) => {
    const path = parts.paths[k], rate = rates[k], kept = keep[k], drops = dropping[k], label = parts.rates[k];
    const row = label ? labelRow(k, dropping) : 0, key = `${rate}|${kept}|${row}`;
    if (parts.shown[k] === key) return;
    parts.shown[k] = key;
    path.setAttribute("stroke-width", rate ? (1 + 0.9 * Math.log10(1 + rate)).toFixed(2) : 1);
    path.classList.toggle("idle", !rate);
    path.classList.toggle("drops", drops);
    if (label) {
      const known = rate !== null && rate !== undefined;
      label.setAttribute("y", row);
      label.children[0].textContent = known ? `${number(rate)}/s` : "";
      label.children[1].textContent = known && drops ? `keeps ${share(kept)}` : "";
      label.classList.toggle("drops", drops);
    }
  });
  const hosts = about.host_order;
  parts.lanes.forEach((label, k) => { label.textContent = hosts[k] + (busy[k] === null || busy[k] === undefined ? "" : "  " + share(busy[k])); });
  if (chosen) tell(chosen, rates);
  if ($("table").open) table(rates);
}

function tell(name, rates) {
  const operator = about.operators[name], lines = [];
  if (operator) {
    lines.push(`<b>${escape(name)}</b> ${escape(operator.kind)} on <b>${escape(about.placement[name] ?? "no host")}</b>`);
    if (operator.cost !== null) lines.push(`${escape(price(operator))} a row`);
    if (operator.selectivity !== null) lines.push(`${number(operator.selectivity)} rows out per row in`);
    if (operator.pin) lines.push(`pinned to ${escape(operator.pin)}`);
    for (const key of ["where", "select", "on", "function"]) if (operator[key]) lines.push(`${key} <code>${escape(operator[key])}</code>`);
  } else lines.push(`<b>${escape(name)}</b> ${about.sinks[name] ? "sink" : "source"}`);
  const into = inflow(about, name, rates), out = outflow(about, name, rates);
  if (into !== null && !about.sources.includes(name)) lines.push(`${number(into)} rows/s in`);
  if (out !== null) lines.push(`${number(out)} rows/s out`);
  $("detail").innerHTML = lines.join(" · ");
}

export function choose(name) {
  if (!parts) return;
  chosen = chosen === name ? null : name;
  parts.svg.classList.toggle("dim", chosen !== null);
  const near = new Set();
  about.streams.forEach((stream, k) => {
    const on = stream.writer === chosen || stream.reader === chosen;
    parts.paths[k].classList.toggle("near", on);
    if (on) near.add(stream.writer).add(stream.reader);
  });
  for (const each of parts.nodes) {
    const on = each.dataset.n === chosen;
    each.classList.toggle("on", on);
    each.classList.toggle("near", near.has(each.dataset.n));
    each.setAttribute("aria-pressed", on);
  }
  if (chosen) tell(chosen, window.penstock?.moment?.().rates); else $("detail").textContent = "";
}

function table(rates) {
  const rows = Object.entries(about.operators).map(([name, operator]) => {
    const into = inflow(about, name, rates);
    return `<tr><td>${escape(name)}</td><td>${escape(about.placement[name] ?? "")}</td><td>${escape(operator.kind)}</td><td>${escape(operator.inputs.join(", "))}</td>` +
      `<td class="n">${operator.cost === null ? "" : escape(price(operator))}</td><td class="n">${into === null ? "" : number(into)}</td></tr>`;
  });
  $("table").lastElementChild.innerHTML = `<table><thead><tr><th>Operator<th>Host<th>Kind<th>Reads<th class="n">Cost a row<th class="n">Rows/s in</tr></thead><tbody>${rows.join("")}</tbody></table>`;
}

// From the width that was observed: asking for it would lay the page out at once.
function size() {
  const wide = Math.min(1.15, Math.max(room / parts.width, window.innerWidth < 720 ? 0.7 : about.streams.length <= LABELLED ? 0.85 : 0.42));
  // As high as the style lets it be; what would get too small to read is scrolled instead.
  const high = 0.64 * window.innerHeight / parts.height;
  parts.scale = zoom === FIT ? Math.min(1.15, room / parts.width, high) : zoom || (high < wide && high >= 0.85 ? high : wide);
  return [parts.width * parts.scale, parts.height * parts.scale];
}

function resize() {
  if (!parts?.svg) return;
  const [width, height] = size();
  parts.svg.setAttribute("width", width);
  parts.svg.setAttribute("height", height);
}

export function listen() {
  const canvas = $("canvas");
  canvas.addEventListener("click", event => { const at = event.target.closest(".node"); if (at) choose(at.dataset.n); });
  canvas.addEventListener("keydown", event => {
    const at = event.target.closest(".node");
    if (!at) {
      if (event.key === "Enter" && parts?.nodes.length) parts.nodes[0].focus();
      return;
    }
    if (event.key === "Enter" || event.key === " ") { choose(at.dataset.n); event.preventDefault(); }
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (way) { step(at, way); event.preventDefault(); }
    if (event.key === "Escape") { if (chosen) choose(chosen); canvas.focus(); }
  });
  $("larger").addEventListener("click", () => { zoom = (parts?.scale ?? 1) * 1.25; resize(); });
  $("smaller").addEventListener("click", () => { zoom = (parts?.scale ?? 1) / 1.25; resize(); });
  $("fit").addEventListener("click", () => { zoom = FIT; resize(); });
  $("table").addEventListener("toggle", () => { if ($("table").open && about) table(window.penstock?.moment?.().rates); });
  new ResizeObserver(([entry]) => { if (entry.contentRect.width && entry.contentRect.width !== room) { room = entry.contentRect.width; resize(); } }).observe(canvas);
}

function step(at, [dx, dy]) {
  const [x, y] = about.layout.places[at.dataset.n];
  let best = null, least = Infinity;
  for (const each of parts.nodes) {
    const [u, v] = about.layout.places[each.dataset.n];
    const ahead = dx ? (u - x) * dx : u === x ? (v - y) * dy : -1;
    if (ahead <= 0) continue;
    const far = dx ? ahead * 100 + Math.abs(v - y) : ahead;
    if (far < least) { least = far; best = each; }
  }
  if (best) { at.setAttribute("tabindex", "-1"); best.setAttribute("tabindex", "0"); best.focus(); }
}
