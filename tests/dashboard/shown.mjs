// The page's own scripts on a page that is not there: node shown.mjs FOLDER, which holds them beside about, what was live, one
// after the other, and what is typed into the form by source before the last of it, as JSON.
// Prints the texts that they write, by the id of their element, below "details" those of each operator, and below "form" what
// stands in the form by source.
import fs from "node:fs";
import { pathToFileURL } from "node:url";

// An element, or what else a browser has: whatever is asked of it is there, and remembers what it was given. It has parts
// enough, and those of each are worth its number, as the scripts number streams.
function anything(number = 0) {
  const parts = function* () { for (let k = 0; k < 20; k++) yield anything(k); };
  const held = new Map([[Symbol.iterator, parts], [Symbol.toPrimitive, () => number]]);
  return new Proxy(function () {}, {
    get(_, key) { if (!held.has(key)) held.set(key, anything(number)); return held.get(key); },
    set(_, key, value) { held.set(key, value); return true; },
    apply: () => anything(number),
    construct: () => anything(number),
  });
}

const elements = {}, drawn = [];
const page = {
  window: globalThis, document: anything(), setInterval: () => 0, requestAnimationFrame: draw => drawn.push(draw),
  location: { hash: "", pathname: "/" }, localStorage: { getItem: () => null },
};
// Of the form the inputs that a script writes are there.
let inputs = [];
elements["if-rates"] = {
  set innerHTML(html) { inputs = [...html.matchAll(/data-source="([^"]*)"/g)].map(([, source]) => ({ dataset: { source }, value: "" })); },
  querySelectorAll: () => inputs,
};
page.document.getElementById = id => elements[id] ??= anything();
for (const name of ["matchMedia", "EventSource", "ResizeObserver", "sessionStorage", "history"]) page[name] = anything();
Object.assign(globalThis, page);

const read = name => JSON.parse(fs.readFileSync(`${process.argv[2]}/${name}.json`));
const script = name => import(pathToFileURL(`${process.argv[2]}/${name}.js`));
const { take } = await script("app"), { choose } = await script("network");
const about = read("about");
take("about", about);
const lives = read("lives"), last = lives.pop(), typed = read("typed");
for (const live of lives) take("live", live);
for (const input of inputs) input.value = typed[input.dataset.source] ?? input.value;
take("live", last);
drawn.forEach(draw => draw());
const found = { details: {}, form: Object.fromEntries(inputs.map(input => [input.dataset.source, input.value])) };
for (const [id, element] of Object.entries(elements)) if (typeof element.textContent === "string") found[id] = element.textContent;
for (const name of Object.keys(about.operators)) { choose(name); found.details[name] = elements.detail.innerHTML; }
console.log(JSON.stringify(found));
