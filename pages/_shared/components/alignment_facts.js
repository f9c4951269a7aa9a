// Words of the alignment: what a screen reader hears of a column, the details, the tally and the legend.

const NUMBER = new Intl.NumberFormat("en"); // one: making it costs milliseconds
const HINT =
  "Each column is one position: the template's token over the generated one. Hover over a column, or use " +
  "the arrow keys; Page Up and Down move by block, n and p by mark, Enter selects, Esc clears.";
const NO_STEPS = "No token probabilities are stored for this text.";

function signed(drift) {
  return drift > 0 ? `+${drift}` : drift < 0 ? `−${-drift}` : "0";
}

// A probability in three digits, and never "1" or "0" for what is only near.
function chance(p) {
  if (p === null || p === undefined) return "unknown";
  if (p === 0 || p === 1) return String(p);
  if (p < 0.001) return p.toExponential(1).replace("-", "−");
  return p > 0.999 ? "> 0.999" : p.toPrecision(3);
}

function percent(share) {
  if (share === null || share === undefined) return "unknown";
  const value = 100 * share;
  if (value === 0) return "0 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  return value < 0.01 ? "< 0.01 %" : `${value.toPrecision(3)}\u00a0%`;
}

function spoken(model, i) {
  const { data } = model;
  const parts = [data.pieces[i] < 0 ? "gap" : shortened(model.text(data.pieces[i]))];
  parts.push(data.pos[i] === null ? "no generated token" : `position ${data.pos[i]}`);
  parts.push(data.template_pos[i] === null ? "no template token" : `template ${shortened(model.text(data.template_pieces[i]))}`);
  const role = ROLES[data.roles[i]]?.[1] ?? ROLES[data.text_roles[i]]?.[1];
  if (role) parts.push(role);
  if (model.differs(i)) parts.push(`but the text is at ${ROLES[data.text_roles[i]][1]}`);
  if (data.forced[i] !== "-") parts.push(data.forced[i] === "1" ? "forced" : "free choice");
  if (data.marks[i] in MARKS) parts.push(MARKS[data.marks[i]][1]);
  if (data.blocks[i] >= 0) parts.push(`block ${model.blockName(data.blocks[i])}`);
  const k = model.step(i);
  if (k !== undefined) parts.push(`probability ${chance(model.steps.p_raw[k])} before the LP`);
  parts.push(`drift ${signed(data.drift[i])}`);
  return parts.join(", ");
}

// Details -------------------------------------------------------------------------------------------------------------

function detailsOf(model, index) {
  if (index < 0 || index >= model.count) return restingCards(model);
  const cards = [newCard("Generated", generatedFacts(model, index)), newCard("Template", templateFacts(model, index))];
  return [...cards, ...modelCards(model, index)];
}

// What the whole says, until a column is looked at.
function restingCards(model) {
  if (!model.count) return [];
  const { data } = model;
  const text = data.totals.map(([name, figure]) => [name, figure, false]);
  text.push(["Template", counted(data.template_pos.filter((at) => at !== null).length, "position"), false]);
  text.push(["Roles differ", counted(countIf(model, (i) => model.differs(i)), "position"), false]);
  const ends = model.count ? data.drift[model.count - 1] : 0;
  text.push(["Drift by token", `${signed(ends)} at the end, from ${signed(model.least)} to ${signed(model.most)}`, false]);
  const cards = [newCard("The whole text", text), newCard("Effect of the LP on the model, the end left out", effectFacts(model), NO_STEPS)];
  const hint = newElement("section", "card");
  hint.append(newElement("h3", "", "How to read it"), newElement("p", "hint", HINT));
  return [...cards, hint];
}

function effectFacts(model) {
  if (!model.steps) return [];
  const { rank, p_raw, taken } = model.steps;
  const at = (code) => [...model.stepAt.values()].filter((k) => data.forced[columns.get(model.steps.pos[k])] === code);
  const { data } = model;
  const columns = new Map(data.pos.map((pos, i) => [pos, i]));
  const [forced, free] = [at("1"), at("0")];
  const rows = [];
  if (forced.length) {
    rows.push(["Forced tokens that were the model's own choice", shareOf(forced.filter((k) => rank[k] === 1).length, forced.length), false]);
    rows.push(["Least p(raw) of a forced token", chance(forced.reduce((least, k) => Math.min(least, p_raw[k] ?? 1), 1)), false]);
  }
  if (free.length) {
    const sum = free.reduce((total, k) => total + (taken[k] ?? 0), 0);
    rows.push(["Mean mass removed from a free token", percent(sum / free.length), false]);
    rows.push(["Free tokens that lost half or more", shareOf(free.filter((k) => taken[k] >= 0.5).length, free.length), false]);
  }
  return rows;
}

function counted(count, name) {
  return `${NUMBER.format(count)} ${name}${count === 1 ? "" : "s"}`;
}

function shareOf(count, all) {
  return all ? `${NUMBER.format(count)} of ${NUMBER.format(all)} (${((100 * count) / all).toFixed(1)}\u00a0%)` : "none";
}

function countIf(model, holds) {
  let count = 0;
  for (let i = 0; i < model.count; i++) if (holds(i)) count += 1;
  return count;
}

function generatedFacts(model, i) {
  const { data } = model;
  const mark = MARKS[data.marks[i]];
  const rows = [];
  if (data.pos[i] === null) rows.push(["Token", "none: a gap", false]);
  else {
    rows.push(["Token", model.text(data.pieces[i]), true], ["Id", String(data.ids[i]), true]);
    rows.push(["Position", String(data.pos[i]), true]);
    if (data.starts[i] !== null) rows.push(["Characters", range(data.starts[i], data.ends[i]), true]);
    const block = data.text_blocks[i] >= 0 ? `, block ${data.text_blocks[i]}` : "";
    rows.push(["Text role", `${ROLES[data.text_roles[i]]?.[1] ?? "no role"}${block}`, false]);
  }
  if (data.forced[i] !== "-") rows.push(["Chosen", data.forced[i] === "1" ? "forced by the LP" : "by the model", false]);
  if (mark) rows.push(["Mark", mark[1], false, mark[0]]);
  const tries = data.text_roles[i] === "F" && data.redrawn[data.blocks[i]];
  if (tries) rows.push(["Tries", tries, false]);
  return rows;
}

function range(start, end) {
  return end === null || end - start <= 1 ? String(start) : `${start}–${end - 1}`;
}

function templateFacts(model, i) {
  const { data } = model;
  const rows = [];
  if (data.template_pos[i] === null) rows.push(["Token", "none: a gap", false]);
  else {
    rows.push(["Token", model.text(data.template_pieces[i]), true], ["Id", String(data.template_ids[i]), true]);
    rows.push(["Position", String(data.template_pos[i]), true]);
    rows.push(["Role", `${ROLES[data.roles[i]]?.[1] ?? "none"}${model.differs(i) ? " ≠ the text's" : ""}`, false]);
  }
  if (data.blocks[i] >= 0) rows.push(["Block", model.blockName(data.blocks[i]), false]);
  const drift = data.drift[i];
  rows.push(["Drift so far", signed(drift), true, drift > 0 ? "junk" : drift < 0 ? "cut" : ""]);
  return rows;
}

function modelCards(model, i) {
  const k = model.step(i);
  if (k === undefined) return [newCard("Model", [], absence(model, i))];
  const { steps } = model;
  const rows = [["Rule", steps.rules[steps.rule[k]], false]];
  rows.push(["p before → after LP", `${chance(steps.p_raw[k])} → ${chance(steps.p_lp[k])}`, true]);
  rows.push(["Rank before LP", NUMBER.format(steps.rank[k]), true]);
  rows.push(["Allowed mass", chance(steps.allowed[k]), true]);
  if (model.data.forced[i] === "0") rows.push(["LP took", percent(steps.taken[k]), true]);
  rows.push(["Entropy", `${steps.entropy[k] === null ? "unknown" : steps.entropy[k].toPrecision(3)} nat`, true]);
  return [newCard("Model", rows), topCard(model, i, steps.top[k])];
}

function absence(model, i) {
  if (model.steps === null) return NO_STEPS;
  return model.data.pos[i] === null ? "Nothing was generated here." : "No token probabilities are stored for this position.";
}

function newCard(title, rows, words = "") {
  const card = newElement("section", "card");
  const list = newElement("dl", "");
  card.append(newElement("h3", "", title));
  for (const [name, value, isMono, tone] of rows) {
    list.append(newElement("dt", "", name), newElement("dd", [isMono ? "mono" : "", tone ?? ""].join(" ").trim(), value));
  }
  card.append(rows.length ? list : newElement("p", "hint", words));
  return card;
}

// The likeliest tokens as bars; a blocked one is struck through and says so, the written one has a mark.
function topCard(model, i, flat) {
  const card = newElement("section", "card");
  const list = newElement("ol", "top");
  const { ids, pieces } = model.data;
  const tokens = [];
  for (let at = 0; at < flat.length; at += 4) tokens.push(flat.slice(at, at + 4));
  const isThere = tokens.some(([id]) => id === ids[i]);
  if (!isThere) tokens.push([ids[i], pieces[i], model.steps.p_raw[model.step(i)], 1]);
  for (const [id, text, p, isAllowed] of tokens) list.append(newTop(id, model.text(text), p, isAllowed, id === ids[i]));
  card.append(newElement("h3", "", "Likeliest before the LP"), list);
  return card;
}

function newTop(id, text, p, isAllowed, isWritten) {
  const item = newElement("li", `${isAllowed ? "" : "blocked"}${isWritten ? " written" : ""}`);
  const bar = newElement("span", "bar");
  bar.style.setProperty("--share", `${100 * (p ?? 0)}%`);
  const piece = newElement(isAllowed ? "span" : "s", "piece", shortened(text));
  piece.title = `${text}, token ${id}`;
  item.append(newElement("span", "sign", isWritten ? "▸" : ""), piece, bar, newElement("span", "p", chance(p)));
  item.append(newElement("span", "word", isAllowed ? (isWritten ? "written" : "") : "blocked"));
  return item;
}

// Tally and legend ----------------------------------------------------------------------------------------------------

function frameWords(root, model) {
  const { data } = model;
  const counts = Object.entries(MARKS).map(([code, [, words]]) => [words.split(":")[0], countOf(data.marks, code)]);
  const said = counts.filter(([, count]) => count).map(([name, count]) => `${NUMBER.format(count)} ${name}`);
  root.querySelector(".count").textContent = counted(model.count, "column");
  root.querySelector(".tally").textContent = said.length ? `marked tokens: ${said.join(" · ")}` : "no marks";
  for (const button of root.querySelectorAll("[data-go]")) button.hidden = !said.length;
  for (const button of root.querySelectorAll("[data-row]")) button.hidden = !model.has(button.dataset.row);
  const has = { differ: countIf(model, (i) => model.differs(i)) > 0, gap: data.pieces?.includes(-1) || data.template_pieces?.includes(-1) };
  for (const item of root.querySelectorAll("[data-when]")) {
    const [column, code] = item.dataset.when.split(":");
    item.hidden = code ? !(data[column] ?? "").includes(code) : !has[column];
  }
  const scales = Object.keys(SCALES).filter((row) => model.has(row));
  const key = newElement("li", "", "Taller and stronger: the LP overruled the model more.");
  root.querySelector(".scales").replaceChildren(...scales.map(newScale), ...(scales.length ? [key] : []));
  root.querySelector(".absent").textContent = model.steps || !model.count ? "" : NO_STEPS;
}

function countOf(codes, code) {
  return codes.split(code).length - 1;
}

// One scale: its name, and a bar with its range for each step.
function newScale(row) {
  const { name, steps } = SCALES[row];
  const item = newElement("li", "scale", `${name}:`);
  steps.forEach((words, level) => {
    const svg = newDrawing("sample", [[`level level-${level}`, `M1 15v${-barHeight(level, 16)}H11v${barHeight(level, 16)}z`]], 0, 12, 16);
    item.append(svg, newElement("span", "", words));
  });
  return item;
}
