// State, connection, and everything that follows the time shown.
import { $, number, seconds, share, between, clock, escape, hue, plural, dash, predicted } from "./words.js";
import { drops, entering, greatest, readers } from "./figures.js";
import * as network from "./network.js";
import { Chart } from "./charts.js";
import * as forms from "./forms.js";

const state = { about: null, live: null, cursor: null, beat: 0, playing: null };
let charts = [];

const SHOWN = 8;  // lines of a chart: more cannot be told apart
const some = (names, unit) => names.length > SHOWN ? `${unit}, the first ${SHOWN} of ${names.length}` : unit;

// ---- what comes ----
export function take(kind, document_) {
  state.beat = performance.now();
  if (kind === "about") return about(document_);
  if (kind === "beat" || !state.about || document_.revision !== state.about.revision) return;
  merge(document_);
  forms.fillRates(document_.usual);
  schedule();
}

function about(next) {
  const before = state.about;
  state.about = next;
  if (next !== null) $("notes").innerHTML = next.notes.map(note => `<li>${escape(note)}</li>`).join("");
  $("empty").hidden = next !== null;
  $("main").hidden = next === null;
  if (next === null) { $("name").textContent = "no run yet"; say("waiting", "waiting"); return; }
  const same = before && ["name", "folder", "operators", "placement", "layout", "hosts", "host_order"].every(key => JSON.stringify(before[key]) === JSON.stringify(next[key]));
  if (same) {  // only decisions, actions or notes are new: what is drawn stays
    if (state.live) state.live.revision = next.revision;
    forms.fill(next);
    return decisions();
  }
  state.live = null;
  document.title = `${next.name} · penstock`;
  $("name").textContent = next.name;
  $("where").textContent = next.folder;
  makeCharts();
  network.draw(next);
  forms.fill(next);
  decisions();
}

function merge(fresh) {
  const old = state.live;
  const shift = old && old.step === fresh.step ? Math.round((fresh.start - old.start) / fresh.step) : null;
  if (shift === null || fresh.from === 0) { state.live = fresh; return follow(shift); }  // who looks back stays there
  patch(old.series, fresh.series, shift, fresh.from);
  Object.assign(old, { ...fresh, series: old.series, from: 0 });
  follow(shift);
}

function patch(held, fresh, shift, from) {
  for (const [key, value] of Object.entries(fresh)) {
    if (value && !Array.isArray(value)) { held[key] ??= {}; patch(held[key], value, shift, from); continue; }
    if (value.length && Array.isArray(value[0])) { held[key] ??= value.map(() => []); value.forEach((row, k) => extend(held[key][k], row, shift, from)); continue; }
    held[key] ??= [];
    if (value.length || typeof held[key][0] !== "object") extend(held[key], value, shift, from);
  }
}

function extend(row, values, shift, from) {
  if (shift > 0) row.splice(0, shift);
  while (row.length < from) row.push(null);
  row.length = from;
  for (const value of values) row.push(value);
}

function follow(shift) {
  if (state.cursor === null) return;
  state.cursor = shift === null ? null : Math.max(0, state.cursor - shift);
}

// ---- what is shown ----
let due = false;
function schedule() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; if (state.live) render(); });
}

function render() {
  const { live } = state;
  if (performance.now() - state.beat < 5000) say(live.status.word, live.status.word === "recorded" ? "recorded" : live.status.word);
  const time = { start: live.start, step: live.step, count: live.length, planned: state.about.virtual };
  for (const chart of charts) chart.update(time, state.cursor);
  const now = moment();
  network.show(now);
  stats(now);
  hosts(now);
  sinks();
  slider(time);
}

export function moment() {
  const { live, about, cursor } = state;
  if (!live) return { rates: [], keep: [], busy: [], load: [], backlog: [] };
  const { series } = live, end = live.length;
  const recent = state.about.kind === "run" ? Math.max(1, Math.ceil(Math.max(4, 2 * about.trigger) / live.step)) : 1;
  // Rates and busy shares of single seconds jump with the batches: the mean of the last few tells more.
  const mean = row => {
    if (!row) return null;
    const stop = cursor === null ? latest(row) + 1 : cursor + 1, part = row.slice(Math.max(0, stop - recent), stop).filter(value => value !== null);
    return part.length ? part.reduce((a, b) => a + b, 0) / part.length : null;
  };
  const at = (row, place = latest(row)) => row?.[cursor ?? place] ?? null;
  // What is predicted stands beside what is measured: both are of the last moment of which rows have come out.
  const out = series.measured.findLastIndex(value => value !== null), of = out < 0 ? undefined : out;
  // Of what is over there is no now: the mean over all of it.
  const ended = live.status.word !== "running" && cursor === null;
  const whole = row => { const part = (row ?? []).filter(value => value !== null); return part.length ? part.reduce((a, b) => a + b, 0) / part.length : null; };
  // What was added up over all of it says more than what is left of it in the window.
  const { streams, hosts: worked, seconds: span } = live.totals, names = about.host_order;
  const flown = k => { const row = streams[about.streams[k].name]; return span && row ? row.rate ?? row.arrived / span : null; };
  const load = about.kind === "log" ? [] : (series.load ?? []).map(row => ended ? whole(row) : row?.[cursor ?? latest(row)] ?? null);
  return {
    rates: series.rates.map((row, k) => ended ? flown(k) ?? whole(row) : mean(row)),
    keep: about.streams.map(stream => series.keep[stream.name] ? at(series.keep[stream.name]) : null),
    // Of a plan it is what is predicted: nothing was measured.
    busy: about.kind === "plan" ? load : series.busy.map((row, k) => ended ? worked[names[k]] ?? whole(row) : mean(row)),
    load,
    backlog: series.backlog.map(row => row[cursor ?? end - 1] ?? null),
    measured: at(series.measured), predicted: at(series.predicted, of), low: at(series.low, of), high: at(series.high, of),
    ended,
  };
}

function latest(row) {
  for (let k = (row?.length ?? 0) - 1; k >= 0; k--) if (row[k] !== null && row[k] !== undefined) return k;
  return 0;
}

function stats(now) {
  const whole = now.ended, over = whole ? ", mean" : "";
  const { about, live } = state, totals = live.totals;
  const entered = entering(about, about.streams.map(stream => totals.streams[stream.name]?.arrived));
  // Sources need not be there all the time: the sum of their rates is not that of what came in over it.
  const into = whole && totals.seconds ? entered / totals.seconds : entering(about, now.rates);
  put("s-rate", `${number(into)}/s`);
  put("s-rate-sub", entered ? `${number(entered)} ${whole ? "in all" : "so far"}` : "");
  const latency = whole ? totals.latency.worst : now.measured;
  $("s-latency").previousElementSibling.textContent = about.kind === "log" ? "Longest batch" : "Latency, worst";
  put("s-latency", about.kind === "plan" ? predicted(totals.predicted?.worst, totals.model) : seconds(latency));
  const expected = about.kind === "log" ? null : whole ? totals.interval?.worst ?? (totals.predicted ? [totals.predicted.worst, totals.predicted.worst] : null) : now.predicted === null ? null : [now.low ?? now.predicted, now.high ?? now.predicted];
  put("s-latency-sub", about.kind === "plan" ? "predicted" + (totals.interval ? ", " + between(totals.interval.worst) : "") : expected ? `predicted ${expected[0] === expected[1] ? predicted(expected[0], totals.model) : between(expected)}` : about.kind === "log" ? `of ${number(totals.latency.count)} batches` : "");
  const names = about.host_order;
  const { busy } = now;
  const most = busy.reduce((best, value, k) => value !== null && value > (busy[best] ?? -1) ? k : best, 0);
  put("s-busy", share(busy[most]), busy[most] > 0.95 ? "bad" : busy[most] > 0.85 ? "warn" : "");
  put("s-busy-sub", names[most] + (about.kind === "plan" ? ", predicted" : over));
  const told = now.backlog.filter(value => value !== null), waiting = told.reduce((sum, value) => sum + value, 0);
  put("s-backlog", told.length ? number(Math.round(waiting)) : dash);
  put("s-backlog-sub", told.length && told.length < names.length ? `on ${told.length} of ${plural(names.length, "host")}` : waiting && into ? `${seconds(waiting / into)} of input` : "");
  const { dropped, arrived, streams } = drops(totals.streams), late = Object.values(totals.streams).reduce((sum, row) => sum + row.late, 0);
  const counted = Object.values(totals.streams).some(row => row.dropped !== null) || (about.kind === "run" && totals.whole);
  put("s-dropped", counted ? number(dropped) : dash);
  put("s-dropped-sub", late ? `${plural(late, "row")} late` : dropped ? `${share(dropped / arrived)} on ${plural(streams, "stream")}` : "");
}

function put(id, text, tone = "") {
  const element = $(id);
  if (element.textContent !== text) element.textContent = text;
  if (element.dataset.tone !== tone) { element.dataset.tone = tone; element.classList.toggle("bad", tone === "bad"); element.classList.toggle("warn", tone === "warn"); }
}

function hosts(now) {
  const { about } = state, box = $("hosts"), names = about.host_order;
  if (box.children.length !== names.length || box.dataset.of !== names.join()) {
    box.dataset.of = names.join();
    box.innerHTML = names.map((name, k) => `<div class="host" style="--c:${hue(k)}"><div class="row"><b>${escape(name)}</b><span></span></div>` +
      `<div class="bar" role="meter" aria-label="${escape(name)} busy" aria-valuemin="0" aria-valuemax="100" aria-valuenow="0"><i></i><s title="quota"></s><u title="predicted"></u></div><small></small></div>`).join("");
  }
  names.forEach((name, k) => {
    const part = box.children[k], host = about.hosts[name], shown = now.busy[k], load = now.load[k];
    part.querySelector("span").textContent = shown === null || shown === undefined ? "" : `${share(shown)} busy`;
    const bar = part.querySelector(".bar");
    bar.setAttribute("aria-valuenow", Math.round(100 * Math.min(1, shown ?? 0)));
    bar.querySelector("i").style.width = `${100 * Math.min(1, shown ?? 0)}%`;
    bar.querySelector("s").style.left = `${100 * host.quota}%`;
    bar.querySelector("s").hidden = host.quota >= 1;
    const tick = bar.querySelector("u");
    tick.hidden = load === null || load === undefined || about.kind === "plan";
    if (!tick.hidden) tick.style.left = `calc(${100 * Math.min(1, load)}% - 1px)`;
    const count = Object.values(about.placement).filter(each => each === name).length, waiting = now.backlog[k];
    const words = [plural(count, "operator"), `capacity ${number(host.capacity)}`];
    if (host.quota < 1) words.push(`quota ${share(host.quota)}`);
    if (load !== null && load !== undefined && about.kind !== "plan") words.push(`needs ${share(load)}`);
    if (waiting === null && about.kind !== "plan") words.push("waiting rows unknown");
    if (waiting && about.kind !== "plan") words.push(`${plural(Math.round(waiting), "row")} waiting`);
    part.querySelector("small").textContent = words.join(" · ");
  });
}

function sinks() {
  const { live, about } = state, rows = Object.entries(live.totals.sinks);
  $("h-sinks").textContent = about.kind === "log" ? "Batches by query" : live.totals.whole ? "Latency by sink" : "Latency by sink, last period";
  const cell = value => `<td class="n">${seconds(value)}</td>`;
  const html = `<table><thead><tr><th>${about.kind === "log" ? "Query" : "Sink"}<th class="n">p50<th class="n">p99<th class="n">worst${about.kind === "log" ? "" : `<th class="n">predicted`}</tr></thead><tbody>${rows.map(([name, row]) =>
    `<tr><td title="${escape(name)}">${escape(name)}</td>${cell(row.latency.p50)}${cell(row.latency.p99)}${cell(row.latency.worst)}${about.kind === "log" ? "" : `<td class="n">${predicted(row.predicted?.worst, live.totals.model)}</td>`}</tr>`).join("")}</tbody></table>`;
  const box = $("sinks");
  if (box.dataset.html !== html) { box.dataset.html = html; box.innerHTML = html; box.style.setProperty("--rows", rows.length); }
}

function makeCharts() {
  const { about } = state, parent = $("charts"), names = about.host_order;
  parent.replaceChildren();
  const series = () => state.live?.series ?? {}, pick = place => seek(place);
  const latency = new Chart(parent, about.kind === "log" ? "Batches and latency" : "Latency", `worst of each ${about.kind === "run" ? "second" : "period"}, by when rows came in`, "seconds", { pick });
  latency.set([
    { label: "p05 to p95", colour: "var(--band)", form: "band", data: () => [series().low, series().high] },
    { label: "predicted", colour: "var(--predicted)", form: "line", data: () => series().predicted },
    ...(about.kind === "plan" ? [] : [{ label: about.measured, colour: "var(--measured)", form: "dot", data: () => series().measured }]),
  ]);
  const busy = new Chart(parent, "Busy share", some(names, about.kind === "log" ? "of the busiest query's time" : "of each host's time"), "share", { full: 1, most: 2, pick });
  const shown = names.slice(0, SHOWN);
  busy.set(shown.flatMap((name, k) => [
    ...(about.kind === "plan" ? [] : [{ label: name, colour: hue(k), form: "line", data: () => smooth(series().busy?.[k], about) }]),
    ...(about.kind === "log" ? [] : [{ label: about.kind === "plan" ? name : "needs", colour: hue(k), form: about.kind === "plan" ? "line" : "dash", data: () => series().load?.[k] }]),
  ]));
  const rates = new Chart(parent, "Rates of the sources", some(about.sources, "rows per second"), "number", { pick });
  rates.set(about.sources.slice(0, SHOWN).map((source, n) => {
    const all = () => { const rows = readers(about, source).map(k => series().rates?.[k] ?? []); return rows[0]?.map((_, at) => greatest(rows.map(row => row[at]))); };
    return { label: source, colour: hue(n), form: "line", data: () => smooth(all(), about) };
  }).concat(about.kind !== "run" || about.sources.length > 4 ? [] : about.sources.map((source, n) =>
    ({ label: "expected", colour: hue(n), form: "dash", data: () => series().offered?.[n] }))));
  charts = [latency, busy, rates];
  if (about.kind !== "plan") {
    const backlog = new Chart(parent, "Backlog", some(names, "waiting rows"), "number", { pick });
    backlog.set(shown.map((name, k) => ({ label: name, colour: hue(k), form: "line", data: () => series().backlog?.[k] })));
    const keep = new Chart(parent, "Kept", "share of each stream that drops", "share", { full: 1, pick });
    keep.figure.hidden = true;
    charts.push(backlog, keep);
    keep.update = function (time, cursor) {
      const dropping = Object.keys(state.live.series.keep);
      if (dropping.join() !== this.of) {
        this.of = dropping.join();
        this.figure.hidden = dropping.length === 0;
        this.unit = this.caption.querySelector("small").textContent = some(dropping, "share of each stream that drops");
        this.set(dropping.slice(0, SHOWN).map((name, k) => ({ label: name, colour: hue(k), form: "line", data: () => state.live.series.keep[name] })));
      }
      if (!this.figure.hidden) Chart.prototype.update.call(this, time, cursor);
    };
  }
}

function smooth(row, about) {
  if (!row || about.kind !== "run") return row;
  const half = Math.max(1, Math.round(about.trigger / (state.live?.step ?? 1)));
  const end = latest(row) + 1;
  return row.map((_, k) => {
    if (k >= end) return null;
    let sum = 0, count = 0;
    for (let at = Math.max(0, k - half); at <= Math.min(end - 1, k + half); at++) if (row[at] !== null) { sum += row[at]; count++; }
    return count ? sum / count : null;
  });
}

// ---- time ----
function marks(time) {
  const key = `${state.about.decisions.length}|${time.start}|${time.count}`, box = $("marks");
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  // A moment that is no longer held cannot be shown.
  const newest = [...state.about.decisions].reverse();
  [...$("decisions").querySelectorAll(".decision")].forEach((row, k) => {
    row.disabled = !(newest[k]?.at >= time.start);
    row.title = row.disabled ? "before the time that is shown" : "";
  });
  const places = state.about.decisions.map(each => (each.at - time.start) / time.step / Math.max(1, time.count - 1)).filter(place => place >= 0 && place <= 1);
  box.innerHTML = places.slice(-300).map(place => `<i style="left:${(100 * place).toFixed(2)}%"></i>`).join("");
}

function slider(time) {
  marks(time);
  const input = $("cursor"), last = Math.max(0, time.count - 1);
  input.max = last;
  input.value = state.cursor ?? last;
  const at = time.start + (state.cursor ?? last) * time.step;
  const text = state.cursor === null && state.about.kind === "run" && state.live.status.word === "running" ? "live" : clock(at, time.planned, time.step * time.count > 86400);
  $("when").textContent = text;
  input.setAttribute("aria-valuetext", text);
  $("now").setAttribute("aria-pressed", state.cursor === null);
}

export function seek(place) {
  if (!state.live) return;
  const last = state.live.length - 1;
  state.cursor = place === null || place >= last ? null : Math.max(0, place);
  schedule();
}

function play() {
  if (state.playing) { clearInterval(state.playing); state.playing = null; $("play").textContent = "▶"; $("play").setAttribute("aria-label", "Replay"); return; }
  if (state.cursor === null) seek(0);
  $("play").textContent = "❚❚";
  $("play").setAttribute("aria-label", "Pause");
  const step = Math.max(1, Math.round((state.live?.length ?? 1) / 300));
  state.playing = setInterval(() => {
    if (state.cursor === null) return play();
    seek(state.cursor + step);
  }, 100);
}

// ---- decisions ----
function decisions() {
  const { about } = state, box = $("decisions");
  $("marks").dataset.key = "";
  if (about.decisions.length === 0) {
    $("h-decisions").textContent = about.findings.length ? "Findings" : "Decisions";
    box.innerHTML = about.findings.length
      ? about.findings.map(each => `<div class="finding"><b>${escape(each.kind)}</b> ${escape(each.about)}: ${escape(each.says)}</div>`).join("")
      : `<p class="fine">Nothing was decided here. <code>penstock control</code> decides while a network runs, and its decisions appear here, each with its reason.</p>`;
    return;
  }
  $("h-decisions").textContent = "Decisions";
  box.replaceChildren(...[...about.decisions].reverse().map(each => {
    const row = document.createElement("button");
    row.type = "button";
    row.className = "decision";
    row.innerHTML = `<time>${escape(clock(each.at ?? each.time, about.virtual || each.at === undefined))}</time><b>${escape(decided(each.decided) || "nothing")}</b><p>${escape(told(each.why))}</p>` +
      outcome(each);
    row.addEventListener("click", () => { if (state.live) seek(Math.round((each.at - state.live.start) / state.live.step)); });
    return row;
  }));
}

// Words for what a controller writes; what it may write besides is shown as it is.
function decided(found) {
  if (found === null || typeof found !== "object" || Array.isArray(found)) return told(found);
  const { moves, keep, add, retire, ...rest } = found, words = [];
  for (const each of moves ?? []) words.push(`move ${each.operator} from ${each.from} to ${each.to}`);
  if (keep) words.push(Object.keys(keep).length ? "keep " + Object.entries(keep).map(([name, part]) => `${share(part)} of ${name}`).join(", ") : "keep everything");
  if (add) words.push(`add ${told(add)}`);
  if (retire) words.push(`retire ${told(retire)}`);
  if (Object.keys(rest).length) words.push(told(rest));
  const text = words.join("; ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function outcome({ expected, came }) {
  const words = [];
  if (typeof expected?.worst === "number") words.push(`worst latency expected ${seconds(expected.worst)}` + (typeof expected.otherwise === "number" ? `, otherwise ${seconds(expected.otherwise)}` : ""));
  else if (told(expected)) words.push("expected " + told(expected));
  if (typeof came?.worst === "number") words.push(`came ${seconds(came.worst)}`);
  else if (told(came)) words.push("came " + told(came));
  return words.length ? `<p>${escape(words.join("; "))}</p>` : "";
}

function told(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map(told).filter(Boolean).join("; ");
  if (typeof value === "object") return Object.entries(value).map(([key, part]) => `${key} ${told(part)}`).join(", ");
  return typeof value === "number" ? number(value) : String(value);
}

// ---- connection ----
function say(word, text) {
  const pill = $("status");
  if (pill.dataset.word !== word) pill.dataset.word = word;
  if (pill.textContent !== text) pill.textContent = text;
}

// Screen readers read what changes: one text, of what matters most, that is touched where it differs.
function alert_() {
  const text = lost ? LOST : trouble || (state.about && state.live?.status.says) || "";
  if ($("lost").textContent === text) return;
  $("lost").textContent = text;
  $("lost").hidden = !text;
}

const LOST = "The dashboard does not answer. You see the last known state; the page reconnects by itself.";
let trouble = "", lost = false;

function lose() {
  lost = true;
  say("lost", "connection lost");
  alert_();
}

function heard() {
  lost = false;
  alert_();
}

function connect() {
  const events = new EventSource("/api/events");
  for (const kind of ["about", "live", "beat"]) events.addEventListener(kind, event => { take(kind, JSON.parse(event.data)); heard(); });
  events.addEventListener("trouble", event => {
    trouble = JSON.parse(event.data) ?? "";
    state.beat = performance.now();
    heard();
  });
  events.onerror = () => {
    lose();
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

function watch() {
  if (state.beat && performance.now() - state.beat > 6000) lose();
}

function theme(next) {
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("penstock-theme", next); } catch { /* private windows have no storage */ }
}

let remembered = null;
try { remembered = localStorage.getItem("penstock-theme"); } catch { /* none */ }
const dark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = remembered ?? (dark.matches ? "dark" : "light");
dark.addEventListener("change", event => { if (!remembered) document.documentElement.dataset.theme = event.matches ? "dark" : "light"; });
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
$("cursor").addEventListener("input", event => seek(Number(event.target.value)));
$("now").addEventListener("click", () => seek(null));
$("play").addEventListener("click", play);
network.listen();
forms.listen(state);
window.penstock = { state, take, moment, seek };
setInterval(watch, 1000);
connect();
