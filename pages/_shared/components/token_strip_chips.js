// Chips as elements, what is said about one, and the clipboard; part of the module of token_strip.js.

// Building and dressing elements ----------------------------------------------------------------------------------------

function newChip() {
  const chip = document.createElement("span");
  chip.setAttribute("role", "option");
  chip.setAttribute("aria-selected", "false");
  chip.tabIndex = -1;
  return chip;
}

function newRun(start) {
  const run = document.createElement("div");
  run.className = "run";
  run.setAttribute("role", "presentation");
  run.dataset.start = NUMBER.format(start); // the ruler, drawn by CSS
  return run;
}

function newHint(count) {
  const hint = document.createElement("div");
  hint.className = "hint";
  hint.textContent = count ? HINT : "";
  return hint;
}

function newFact(name, value, mono) {
  const fact = document.createElement("div");
  const term = document.createElement("dt");
  const content = document.createElement("dd");
  term.textContent = name;
  content.textContent = value;
  if (mono) content.className = "mono";
  fact.append(term, content);
  return fact;
}

function dress(chip, data, i) {
  const classes = ["chip"];
  const role = ROLES[data.roles[i]];
  const mark = MARKS[data.marks[i]];
  if (role) classes.push(role[0]);
  if (data.forced[i] === "1") classes.push("forced");
  if (mark) classes.push(mark[0]);
  if (TINTS[data.tints[i]]) classes.push("tint", `tint${data.tints[i]}`);
  chip.className = classes.join(" ");
  indices.set(chip, i);
  chip.textContent = shownPiece(data, i);
  chip.setAttribute("aria-label", spoken(data, i, role, mark));
}

function sameLook(data, before, i) {
  return (
    data.roles[i] === before.roles[i] &&
    data.marks[i] === before.marks[i] &&
    data.tints[i] === before.tints[i] &&
    data.forced[i] === before.forced[i] &&
    data.blocks[i] === before.blocks[i]
  );
}

// Only what some chip has; "tints:*" stands for any tint.
function paintLegend(root, data) {
  for (const item of root.querySelectorAll("[data-when]")) {
    const [column, code] = item.dataset.when.split(":");
    item.hidden = !(code === "*" ? /\d/.test(data[column]) : data[column].includes(code));
  }
}

function shownPiece(data, i) {
  return data.shown[i] ?? data.pieces[i];
}

function spoken(data, i, role, mark) {
  const parts = [shownPiece(data, i), `token ${i}`];
  if (role) parts.push(role[1]);
  if (data.forced[i] !== "-") parts.push(data.forced[i] === "1" ? "forced" : "free choice");
  if (mark) parts.push(mark[1]);
  if ((data.blocks[i] ?? null) !== null) parts.push(`block ${data.blocks[i]}`);
  return parts.join(", ");
}

// What the details name about a chip: [name, value, in the code font].
function facts(data, i) {
  const role = ROLES[data.roles[i]]?.[1] ?? "";
  const forced = { 1: "forced by the LP", 0: "the model's choice" }[data.forced[i]] ?? "";
  const start = data.starts[i] ?? null;
  const end = data.ends[i] ?? null;
  const rows = [["Token", String(i), true]];
  rows.push(["Piece", data.details[i] ?? shownPiece(data, i), true]);
  if (data.ids[i] !== null) rows.push(["Id", String(data.ids[i]), true]);
  if (start !== null) rows.push(["Characters", end === null || end - start === 1 ? `${start}` : `${start}–${end - 1}`, true]);
  if (role || forced) rows.push(["Role", [role, forced].filter(Boolean).join(", "), false]);
  if (data.marks[i] in MARKS) rows.push(["Mark", MARKS[data.marks[i]][1], false]);
  if ((data.blocks[i] ?? null) !== null) rows.push(["Block", String(data.blocks[i]), true]);
  if (TINTS[data.tints[i]]) rows.push(["p(raw)", TINTS[data.tints[i]], false]);
  if (data.notes[i]) rows.push(["Note", data.notes[i], false]);
  return rows;
}

async function copy(content) {
  try {
    await navigator.clipboard.writeText(content);
    return true;
  } catch {
    return false; // no permission
  }
}
