// The data of a text that may still be written. A message holds the chips from an index on; it can be used if what lies
// before that index is known here as it was when message `since` had come. Part of the module of token_strip.js.

const LISTS = ["pieces", "ids"];
const CODES = ["roles", "forced", "marks", "tints"];
const SPARSE_LISTS = ["blocks", "atoms", "starts", "ends"]; // an empty one has no value at all
const BY_INDEX = ["shown", "details", "notes"];

// The data of the whole text, as the strip reads it.
function merged(before, message) {
  const { from } = message;
  const count = from + message.pieces.length;
  const data = { ...message, text: mergedText(before, message) };
  for (const name of LISTS) data[name] = before[name].slice(0, from).concat(message[name]);
  for (const name of CODES) data[name] = before[name].slice(0, from) + message[name];
  for (const name of SPARSE_LISTS) data[name] = sparse(before[name], message[name], from, count);
  for (const name of BY_INDEX) data[name] = indexed(before[name], message[name], from);
  return data;
}

function mergedText(before, { text }) {
  return text === null ? null : (before.text ?? "").slice(0, text[0]) + text[1];
}

function sparse(before, after, from, count) {
  if (!before.length && !after.length) return [];
  const all = new Array(count).fill(null);
  for (let i = 0; i < from; i++) all[i] = before[i] ?? null;
  after.forEach((value, i) => (all[from + i] = value));
  return all;
}

function indexed(before, after, from) {
  const all = {};
  for (const [i, value] of Object.entries(before)) if (Number(i) < from) all[i] = value;
  for (const [i, value] of Object.entries(after)) all[from + Number(i)] = value;
  return all;
}
