"""Rollouts of a training as runs, one for each step: completions that TRL logs, what a validation lists as failed, and
the group's summary of what its LP and its logs call a failure.

Texts and rewards are stored as they stand, so that a hundred thousand open in a second; `judge` reads and judges them
(``inspection.rollout_judging``). Until then a SMILES is as its prompt has it. A summary has no texts, so nothing of it
is judged. Which sampling and which LP wrote them is in none of these files: TRL generates without one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.chem.enriched import prompt_of
from engine.chem.other_forms import OTHER_WORDS, other_form
from engine.errors import FileError, one_line, shown
from engine.figures.words import agreeing
from engine.lp_records import NO_LP
from engine.records import Alphabet, NumberFormat
from engine.store.columns import Table
from engine.store.entries import Entry, number_format_of
from engine.store.reports import BEFORE, REPORTED_PASSED
from engine.store.reports.importing import TextBins, check_bins, file_content
from engine.store.schema import ROLLOUTS, RUN, SAMPLES
from engine.store.staging import write_whole
from engine.store.store import Store
from engine.text.blocks import PROMPT, found_form
from engine.user_files import parsed_json

OF_TRL = ("step", "prompt", "completion", "advantage")
"""Columns of TRL's; each other column of numbers is a reward."""
UNNAMED = "rollouts"
"""A training whose files are in no folder that names it."""
SHOWING = 200
"""Texts that are looked at for their number format."""
NOTES = "Texts of a training, stored as they are: `judge` checks them and judges their molecules."
MOST_DIGITS = 18
"""Of a step."""
_STEP = re.compile(r"step[ _]?(\d+)", re.IGNORECASE)
_BLOCK = re.compile(r"^--- Failure #\d+ ---[ \t]*$", re.MULTILINE)
_TOTAL = re.compile(r"^Total failures:[ \t]*(\d{1,18})[ \t]*$", re.MULTILINE)
_FIELDS = re.compile(
    r"\s*SMILES:(?P<prompt>.*?)\n\s*Full Generated String:(?P<completion>.*)\n\s*Fail Type:(?P<code>[^\n]*)", re.DOTALL
)
_LINE = re.compile(r"(?P<prompt>[^|]*[^|\s])\s*\|(?P<code>[^|]*)\|(?P<completion>.*)", re.DOTALL)
_LINES_HEAD = "Format: Prompt | error code | generated text"
_LISTS = {"intersections": "lp_caught_failures", "misses": "lp_missed_failures", "lp_only": "lp_new_failures"}
_STATUS = {"pass": True, "passed": True, "fail": False, "failed": False}


def import_completions(store: Store, path: Path, **how: Any) -> list[Entry]:
    """A run for each step of a file of TRL's."""
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = one_line(str(error).partition("\n")[0])[:200]
        raise FileError(f"{shown(path.name)} is no whole Parquet file: {reason}", "Write it again") from error
    if problem := _wrong_columns(table):
        raise FileError(f"{shown(path.name)} {problem}", "Give completions that TRL logged")
    for name in ("prompt", "completion"):
        table = table.set_column(table.column_names.index(name), name, _texts(path, name, table[name]))
    return _imported(store, path, table.combine_chunks(), **how)


def _wrong_columns(table: pa.Table) -> str:
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    if missing := [name for name in OF_TRL[:3] if name not in kinds]:
        return f"has no column {', '.join(missing)}"
    if not table.num_rows:
        return "has no row"
    if not pa.types.is_integer(kinds["step"]) or table["step"].null_count:
        return "has steps that are no whole numbers"
    if pc.max(table["step"]).as_py() >= 2**63:
        return "has a step over 2^63"
    advantage = kinds.get("advantage", pa.null())
    is_given = _is_number(advantage) or pa.types.is_null(advantage)
    return "" if is_given else "has an advantage that is no number"


def import_failures(store: Store, path: Path, **how: Any) -> list[Entry]:
    """A run of what a validation lists as failed, in either of two layouts."""
    text = file_content(path).decode("utf-8", "replace").replace("\r\n", "\n")
    step = _STEP.search(path.name) or _STEP.search(text[:1_000])
    parts = _BLOCK.split(text)[1:]
    form = _FIELDS
    if not parts:
        parts = _of_lines(text.partition(_LINES_HEAD)[2])
        form = _LINE
    matches = [match for match in map(form.match, parts) if match]
    if not matches or step is None or len(step[1]) > MOST_DIGITS:
        problem = "names no step that can be one" if matches else "lists no failure that can be read"
        raise FileError(f"{shown(path.name)} {problem}", "Give the file that a validation wrote")
    if left := len(parts) - len(matches):
        how["warn"](f"{shown(path.name)}: {left:,} of {len(parts):,} failures cannot be read")
    stated = _TOTAL.search(text[:1_000])
    if stated and int(stated[1]) > len(parts):
        is_or_are = agreeing(len(parts), "is", "are")
        how["warn"](f"{shown(path.name)}: {len(parts):,} of {int(stated[1]):,} failures {is_or_are} in the file")
    columns = {name: [match[name].strip() for match in matches] for name in ("prompt", "completion")}
    extra = [json.dumps({"error_code": match["code"].strip(), REPORTED_PASSED: False}) for match in matches]
    table = pa.table({"step": [int(step[1])] * len(matches), **columns})
    return _imported(store, path, table, extra=extra, **how)


def _of_lines(text: str) -> list[str]:
    """A failure a line, and with it those on which its text goes on."""
    parts: list[str] = []
    for line in text.split("\n"):
        if _LINE.match(line) or ("|" in line and not parts):
            parts.append(line)
        elif parts:
            parts[-1] += f"\n{line}"
    return parts


def import_summary(store: Store, path: Path, *, label: str | None = None, **_: Any) -> list[Entry]:
    """What the summary says of each molecule, as a run without texts."""
    content = file_content(path)
    document = parsed_json(content)
    run_id = f"imported-{hashlib.sha256(content).hexdigest()[:16]}"
    if store.has(run_id):
        return [store.entry(run_id)]
    try:
        rows = [{"list": name, **row} for part, name in _LISTS.items() for row in document.get(part, {}).get(name, [])]
        samples = SAMPLES.rows([_summary_sample(run_id, number, row) for number, row in enumerate(rows)])
    except (AttributeError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        raise FileError(f"{shown(path.name)}: a row is of another kind: {one_line(str(error))}", "Repair it") from error
    if not rows:
        raise FileError(f"{shown(path.name)} has no rows of molecules", "There is nothing to import")
    if not all(row["smiles"] for row in rows):
        raise FileError(f"{shown(path.name)} has a row without SMILES", "Repair it, or leave the row out")
    counts = Counter(row["list"] for row in rows)
    listed = ", ".join(f"{counts[name]:,} in {name}" for name in _LISTS.values())
    notes = f"An LP summary, without texts: {listed}. `passed` is its lp_status, `issues` its log_reason."
    about = {"label": label or "LP against logs", "samples": len(rows), "molecules": len(pc.unique(samples["smiles"]))}
    row = _row(path, notes) | about | {"extra": json.dumps(document.get("log_failures"))}
    return [write_whole(store.home, RUN, run_id, row, {SAMPLES.name: samples})]


def _summary_sample(run_id: str, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "sample_id": number,
        "generation": 0,
        "smiles": row["smiles"],
        "passed": _STATUS.get(str(row.get("lp_status")).lower()),
        "issues": [row["log_reason"]] if row.get("log_reason") else [],
        "parsed": row.get("parse_success"),
        "exact_match": row.get("smiles_exact_match"),
        "extra": json.dumps(row, sort_keys=True),
    }


# --- what the files become --------------------------------------------------------------------------------------------


def _imported(
    store: Store,
    path: Path,
    table: pa.Table,
    *,
    label: str | None = None,
    bins: Alphabet | None = None,
    progress: Callable[..., object] = lambda done, share, samples: None,
    warn: Callable[[str], object],
    extra: Sequence[str] | None = None,
    conformers: Path | None = None,
    **_: Any,
) -> list[Entry]:
    """A run for each step of a table with TRL's columns; of failures, which are of one step, ``extra`` is theirs."""
    if conformers is not None:
        raise FileError(f"{shown(path.name)} is no report", "--conformers are those of a report's texts")
    kinds = zip(table.column_names, table.schema.types, strict=True)
    rewards = [name for name, kind in kinds if name not in OF_TRL and _is_number(kind)]
    if not rewards and extra is None:
        warn(f"{shown(path.name)} has no column of a reward")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    training = label or _folder_name(path.resolve().parent)
    form = _form_of(path, table["completion"].slice(0, SHOWING).to_pylist(), bins)
    run_ids, done = [], 0
    for step in sorted(pc.unique(table["step"]).to_pylist()):
        run_id = f"imported-{digest}-step{step}"
        rows = table.filter(pc.equal(table["step"], step)).combine_chunks()
        run_ids.append(run_id)
        if not store.has(run_id):
            tables = {SAMPLES.name: _samples(run_id, rows, extra), ROLLOUTS.name: _rollouts(run_id, rows, rewards)}
            row = _row(path, NOTES) | {
                "label": f"{training}, step {step:,}",
                "training": training,
                "training_step": step,
                "model_alias": training,
                "model_step": str(step),
                "lp": NO_LP,
                "samples": rows.num_rows,
                "molecules": len(pc.unique(tables[SAMPLES.name]["smiles"])),
                "reported_failures": None if extra is None else len(extra),
            }
            write_whole(store.home, RUN, run_id, row, tables, form=form and asdict(form))
        elif bins and number_format_of(store.entry(run_id)) != bins:
            raise FileError(f"{shown(path.name)} is imported as {run_id}, with other bins", "Remove that run first")
        done += rows.num_rows
        progress(done, done / table.num_rows, samples=table.num_rows)
    return [Store.open(store.home.where).entry(run_id) for run_id in run_ids]


def _folder_name(folder: Path) -> str:
    """Of the training; TRL writes into a folder of its own in that."""
    return (folder.parent if folder.name == "completions" else folder).name or UNNAMED


def _row(path: Path, notes: str) -> dict[str, Any]:
    return {"origin": "imported", "created_at": datetime.now(UTC).isoformat(), "source": path.name, "notes": notes}


def _samples(run_id: str, rows: pa.Table, extra: Sequence[str] | None) -> pa.Table:
    """As the prompts and texts have it; what a check would say is null."""
    encoded = rows["prompt"].combine_chunks().dictionary_encode()
    prompt, asked = pa.array(encoded.indices), [_asked(text) for text in encoded.dictionary.to_pylist()]
    smiles = pa.array([smiles for smiles, _ in asked]).take(prompt)
    molecule = smiles.dictionary_encode().indices.to_numpy()  # [texts]
    order = np.argsort(molecule, kind="stable")
    generation = np.empty_like(order)
    generation[order] = np.arange(len(order)) - np.searchsorted(molecule[order], molecule[order])
    before = pa.array([extra for _, extra in asked], pa.string()).take(prompt)
    known = {"generation": generation, "smiles": smiles, "text": rows["completion"], "extra": extra or before}
    return _table(SAMPLES, run_id, known, rows.num_rows)


def _asked(prompt: str) -> tuple[str, str | None]:
    """The SMILES of a prompt, its last one behind examples, or all of it where its tags were left out; and as JSON what
    precedes the answer, where that is not the usual."""
    found = PROMPT.findall(prompt)
    smiles = (found[-1] if found else prompt).strip()
    return smiles, None if prompt in (prompt_of(smiles), smiles) else json.dumps({BEFORE: prompt}, ensure_ascii=False)


def _rollouts(run_id: str, rows: pa.Table, rewards: Sequence[str]) -> pa.Table:
    known = {"advantage": rows["advantage"]} if "advantage" in rows.column_names else {}
    if rewards:
        kind = ROLLOUTS.by_name["rewards"].type
        each = [pc.cast(rows[name], pa.float64(), safe=False).to_numpy() for name in rewards]
        values = np.stack(each, axis=1).ravel()  # [texts x rewards]
        names = pa.array(rewards).take(pa.array(np.tile(np.arange(len(rewards)), rows.num_rows)))
        of_each = [names, pa.array(values, mask=~np.isfinite(values))]
        given = pa.StructArray.from_arrays(of_each, fields=list(kind.value_type))
        ends = np.arange(rows.num_rows + 1, dtype=np.int32) * len(rewards)
        known["rewards"] = pa.ListArray.from_arrays(ends, given, kind)
    return _table(ROLLOUTS, run_id, known, rows.num_rows)


def _table(table: Table, run_id: str, known: Mapping[str, Any], count: int) -> pa.Table:
    """Rows of these columns; the others are null."""
    known = {"run_id": pa.repeat(run_id, count), "sample_id": range(count), **known}
    columns = []
    for column in table:
        values = known.get(column.name, pa.nulls(count, column.type))
        is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
        columns.append(values.cast(column.type) if is_arrow else pa.array(values, column.type))
    return pa.table(columns, schema=table.schema)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_text(kind: pa.DataType) -> bool:
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    return held in (pa.string(), pa.large_string(), pa.string_view())


def _texts(path: Path, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts, or of a chat the last message of each."""
    kind = column.type
    if _is_text(kind):
        return pc.fill_null(column.cast(pa.string()), "")
    held = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    if isinstance(held, pa.StructType) and any(field.name == "content" and _is_text(field.type) for field in held):
        messages = [chat[-1] if chat else {} for chat in column.to_pylist()]
        if None not in messages:
            return pa.chunked_array([[message.get("content") or "" for message in messages]], pa.string())
    problem = f"{shown(path.name)} has a {name} that is neither a text nor a chat ({shown(str(kind))})"
    raise FileError(problem, "Give completions that TRL logged")


def _form_of(path: Path, texts: Sequence[str], bins: Alphabet | None) -> NumberFormat | None:
    """Of decimals as the first texts show it; of bins and codes it must be given, and theirs."""
    if bins:
        try:
            check_bins(TextBins(bins, "as given"), texts)
        except FileError as error:
            raise FileError(f"{shown(path.name)}: {error.what}", error.fix) from error
        return bins
    forms = Counter(map(other_form, texts))
    for form in ("bins", "binned", "codes"):
        if 2 * forms[form] > forms.total():
            problem = (
                f"{forms[form]:,} of the first {forms.total():,} texts of {shown(path.name)} are {OTHER_WORDS[form]}"
            )
            raise FileError(problem, "Give --bins FILE.json: the texts do not say which")
    return found_form(texts, forced_close=False)[0]
