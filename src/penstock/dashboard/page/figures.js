// Figures of a network that are made of those of its streams. Nothing of the page is needed for them.

export const greatest = values => values.reduce((best, value) => (value ?? null) !== null && (best === null || value > best) ? value : best, null);

// null where nobody knows any of it.
function sum(values) {
  const known = values.filter(value => (value ?? null) !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) : null;
}

// Streams are known by their index, as rates are.
export const indices = (about, wanted) => about.streams.flatMap((stream, k) => wanted(stream) ? [k] : []);
export const readers = (about, writer) => indices(about, stream => stream.writer === writer);

export function inflow(about, name, rates) {
  return sum(indices(about, stream => stream.reader === name).map(k => rates?.[k]));
}

// Each reader sees all that is written, unless it is routed; but a query that was admitted later only what came since.
export function outflow(about, name, rates) {
  const each = readers(about, name).map(k => rates?.[k]);
  return about.operators[name]?.routes ? sum(each) : greatest(each);
}

// What comes into the network from all its sources, of what is measured by stream.
export function entering(about, rates) {
  return sum(about.sources.map(source => outflow(about, source, rates))) ?? 0;
}

// Rows that were dropped, and those that arrived where any were, on so many streams.
export function drops(streams) {
  const rows = Object.values(streams).filter(row => row.dropped);
  return { dropped: sum(rows.map(row => row.dropped)) ?? 0, arrived: sum(rows.map(row => row.arrived)) ?? 0, streams: rows.length };
}
