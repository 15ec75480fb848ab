// Questions and actions.
import { $, number, seconds, share, between, escape, plural } from "./words.js";

let about = null, filled = "";

export function fill(next) {
  about = next;
  const key = JSON.stringify([next.sources, Object.keys(next.operators), Object.keys(next.hosts)]);
  if (key === filled) return;
  filled = key;
  $("if-rates").innerHTML = next.sources.map(name =>
    `<label>${escape(name)}<input type="number" name="rate" data-source="${escape(name)}" min="0" step="any" value="${Number((next.rates[name] ?? 0).toPrecision(3))}" required></label>`).join("");
  const options = (names, first = "") => first + names.map(name => `<option>${escape(name)}</option>`).join("");
  const form = $("if"), operators = Object.keys(next.operators), hosts = Object.keys(next.hosts);
  form.operator.innerHTML = options(operators, `<option value="">nothing</option>`);
  form.host.innerHTML = options(hosts);
  $("answer").replaceChildren();
}

export function listen() {
  const form = $("if");
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const question = { rates: {}, duration: Number(form.duration.value), shed: form.shed.checked };
    for (const input of $("if-rates").querySelectorAll("input")) question.rates[input.dataset.source] = Number(input.value);
    if (form.placement.value) question.algorithm = form.placement.value;
    if (form.operator.value) question.placement = { [form.operator.value]: form.host.value };
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      answer(await ask("/api/what-if", question), question);
    } catch (error) {
      $("answer").innerHTML = `<p class="answer error">${escape(error.message)}</p>`;
    } finally {
      button.disabled = false;
    }
  });
}

export async function ask(path, body, token) {
  let response;
  try {
    response = await fetch(path, { method: "POST", body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) } });
  } catch {
    throw new Error("The dashboard does not answer.");
  }
  const document_ = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(typeof document_.detail === "string" ? document_.detail : "That is not a question the dashboard understands.");
  return document_;
}

function answer(found, question) {
  const over = Object.entries(found.hosts).filter(([, host]) => host.work > host.quota);
  const words = found.fits ? `<span class="good">It fits.</span>` : `<span class="bad">It does not fit:</span> ${over.map(([name]) => escape(name)).join(", ") || "a link"} cannot keep up, and rows wait longer and longer.`;
  const kept = Object.entries(found.keep).filter(([, value]) => value < 1);
  const rows = [["worst", "p99", "p50"].map(key => `<tr><td>${key}</td><td class="n">${seconds(found.latency[key])}</td><td class="n">${between(found.interval?.[key])}</td></tr>`).join("")];
  const hosts = Object.entries(found.hosts).map(([name, host]) => `<tr><td>${escape(name)}</td><td class="n${host.work > host.quota ? " bad" : ""}">${share(host.work)}</td><td class="n">${share(host.busy)}</td></tr>`).join("");
  $("answer").innerHTML = `<div class="answer"><p>${words} Answered in ${seconds(found.seconds)}.</p>` +
    (found.moved.length ? `<p>${plural(found.moved.length, "operator")} would move: ${found.moved.slice(0, 12).map(name => `${escape(name)} to ${escape(found.placement[name])}`).join(", ")}${found.moved.length > 12 ? ", …" : ""}.</p>` : "") +
    (kept.length ? `<p>Keeps ${kept.map(([name, value]) => `${share(value)} of ${escape(name)}`).join(", ")}: ${share(found.full ? found.score / found.full : 1)} of the results' worth.</p>` : "") +
    `<table><thead><tr><th>Latency<th class="n">after ${seconds(found.duration)}<th class="n">p05 to p95</tr></thead><tbody>${rows}</tbody></table>` +
    `<table><thead><tr><th>Host<th class="n">work<th class="n">busy</tr></thead><tbody>${hosts}</tbody></table></div>`;
}
