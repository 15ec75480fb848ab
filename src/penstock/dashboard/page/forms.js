// Questions and actions.
import { $, number, seconds, share, between, escape, plural, predicted } from "./words.js";

let about = null, filled = "";

export function fill(next) {
  about = next;
  offer(next);
  const key = JSON.stringify([next.sources, Object.keys(next.operators), Object.keys(next.hosts)]);
  if (key === filled) return;
  filled = key;
  $("if-rates").innerHTML = next.sources.map(name =>
    `<label>${escape(name)}<input type="number" name="rate" data-source="${escape(name)}" min="0" step="any" required></label>`).join("");
  const options = (names, first = "") => first + names.map(name => `<option>${escape(name)}</option>`).join("");
  const form = $("if"), operators = Object.keys(next.operators), hosts = Object.keys(next.hosts);
  form.operator.innerHTML = options(operators, `<option value="">nothing</option>`);
  form.host.innerHTML = options(hosts);
  const act = $("act");
  act.operator.innerHTML = options(operators);
  act.host.innerHTML = options(hosts);
  $("answer").replaceChildren();
}

// The rates of a run may be known only after a while: what nobody has changed follows them.
export function fillRates(usual) {
  for (const input of $("if-rates").querySelectorAll("input")) {
    if (input === document.activeElement || input.value !== (input.dataset.given ?? "")) continue;
    input.value = input.dataset.given = String(Number((usual[input.dataset.source] ?? 0).toPrecision(3)));
  }
}

const ACTIONS = { move: "Move an operator", drain: "Empty a host", stop: "Stop the controller and what it runs" };

function offer(next) {
  $("acting").hidden = next.actions.length === 0;
  const kind = $("act").kind, names = next.actions.join();
  if (kind.dataset.names === names) return;
  kind.dataset.names = names;
  kind.innerHTML = next.actions.map(name => `<option value="${name}">${ACTIONS[name]}</option>`).join("");
  kind.dispatchEvent(new Event("change"));
}

let token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
try {
  if (token) sessionStorage.setItem("penstock-token", token); else token = sessionStorage.getItem("penstock-token") ?? "";
} catch { /* private windows have no storage */ }
if (location.hash.includes("token=")) history.replaceState(null, "", location.pathname);

// First what it would do, then whether it shall be done, then it is done.
async function act(event) {
  event.preventDefault();
  const form = $("act"), kind = form.kind.value, wanted = { kind };
  if (kind === "move") wanted.operator = form.operator.value;
  if (kind !== "stop") wanted.host = form.host.value;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    if (!token && !await confirm_("This needs the token.", true)) return;
    const dry = await ask("/api/actions", { ...wanted, dry: true }, token);
    if (!await confirm_(told(dry), false)) { $("acted").textContent = "Nothing was done."; return; }
    const done = await ask("/api/actions", { ...wanted, dry: false }, token);
    $("acted").innerHTML = done.done ? `<p class="good">Done: ${escape(done.why)}</p>` : `<p class="error">Not done: ${escape([...(done.refused ?? []), done.why].join("; "))}</p>`;
  } catch (error) {
    if (error.message.includes("token")) token = "";
    $("acted").innerHTML = `<p class="error">${escape(error.message)}</p>`;
  } finally {
    button.disabled = false;
  }
}

function told(dry) {
  const moves = dry.decided?.moves ?? [], expected = dry.expected?.worst;
  return `${dry.why}.` + (moves.length ? ` Moves ${moves.map(each => `${each.operator} from ${each.from} to ${each.to}`).join(", ")}.` : "") +
    (expected !== undefined && expected !== null ? ` Expected worst latency ${seconds(expected)}${dry.expected.otherwise !== undefined ? `, otherwise ${seconds(dry.expected.otherwise)}` : ""}.` : "");
}

function confirm_(text, wanted) {
  const dialog = $("confirm");
  $("preview").textContent = text;
  $("h-confirm").textContent = wanted ? "Token" : "Do it?";
  $("ask-token").hidden = !wanted;
  dialog.querySelector(".main").textContent = wanted ? "Go on" : "Do it";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise(done => dialog.addEventListener("close", () => {
    const yes = dialog.returnValue === "yes", input = dialog.querySelector("input");
    if (yes && wanted) { token = input.value.trim(); try { sessionStorage.setItem("penstock-token", token); } catch { /* none */ } }
    input.value = "";
    done(yes && (!wanted || token !== ""));
  }, { once: true }));
}

export function listen() {
  listenToActions();
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

function listenToActions() {
  // It submits nothing: Enter in a field presses the first button that does.
  $("confirm").querySelector(".quiet").addEventListener("click", () => $("confirm").close());
  $("act").addEventListener("submit", act);
  $("act").kind.addEventListener("change", () => {
    for (const label of $("act").querySelectorAll("[data-for]")) label.hidden = !label.dataset.for.split(" ").includes($("act").kind.value);
  });
}

export async function ask(path, body, token) {
  let response;
  // Headers hold bytes: other letters of the token go as UTF-8.
  const bytes = String.fromCharCode(...new TextEncoder().encode(token ?? ""));
  try {
    response = await fetch(path, { method: "POST", body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${bytes}` } : {}) } });
  } catch {
    throw new Error("The dashboard does not answer.");
  }
  const document_ = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(typeof document_.detail === "string" ? document_.detail : "The dashboard does not understand this request.");
  return document_;
}

function answer(found, question) {
  const over = Object.entries(found.hosts).filter(([, host]) => host.work > host.quota);
  const words = found.fits ? `<span class="good">It fits.</span>` : `<span class="bad">It does not fit:</span> ${over.map(([name]) => escape(name)).join(", ") || "a link"} cannot keep up, and rows wait longer and longer.`;
  const kept = Object.entries(found.keep).filter(([, value]) => value < 1);
  const rows = [["worst", "p99", "p50"].map(key => `<tr><td>${key}</td><td class="n">${predicted(found.latency[key], found.model, found.latency.worst)}</td><td class="n">${between(found.interval?.[key])}</td></tr>`).join("")];
  const hosts = Object.entries(found.hosts).map(([name, host]) => `<tr><td>${escape(name)}</td><td class="n${host.work > host.quota ? " bad" : ""}">${share(host.work)}</td><td class="n">${share(host.busy)}</td></tr>`).join("");
  $("answer").innerHTML = `<div class="answer"><p>${words} Answered in ${seconds(found.seconds)}.</p>` +
    (found.notes ?? []).map(note => `<p class="fine">${escape(note)}</p>`).join("") +
    (found.moved.length ? `<p>${plural(found.moved.length, "operator")} would move: ${found.moved.slice(0, 12).map(name => `${escape(name)} to ${escape(found.placement[name])}`).join(", ")}${found.moved.length > 12 ? ", …" : ""}.</p>` : "") +
    (kept.length ? `<p>Keeps ${kept.map(([name, value]) => `${share(value)} of ${escape(name)}`).join(", ")}: ${share(found.full ? found.score / found.full : 1)} of the results' worth.</p>` : "") +
    `<table><thead><tr><th>Latency<th class="n">after ${seconds(found.duration)}<th class="n">p05 to p95</tr></thead><tbody>${rows}</tbody></table>` +
    `<table><thead><tr><th>Host<th class="n">work<th class="n">busy</tr></thead><tbody>${hosts}</tbody></table></div>`;
}
