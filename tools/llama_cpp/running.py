"""Both engines on the same token ids: their logs, how far they agree, and what late reads give."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.logits.recorder import LogFile, LoggedColumns, names_of_line
from engine.models.loading import LoadedModel
from engine.records import Molecule
from tools.llama_cpp.converting import write_gguf
from tools.llama_cpp.figures import AnswerAgreement, LogitAgreement, Rows
from tools.llama_cpp.late import LateRequest, Values, read_late
from tools.llama_cpp.session import LlamaSetting, Session, Weights, quantised
from tools.llama_cpp.texts import ReferenceAnswer, Writer, ids_to_log

log = logging.getLogger(__name__)

ENGINE = "llama.cpp"
TRANSFORMERS = "transformers, one pass"
LATE_TOKENS, LATE_VALUES = 24, 10
"""Of a text, and of each of its rows: as many as the reports' logs have."""
SPARE = 8
"""Positions of a context beyond what is written."""


@dataclass(frozen=True, slots=True)
class ParityPlan:
    settings: tuple[LlamaSetting, ...]
    values: int  # of each row that are logged
    first: bool = False  # those of the first ids, as the reports' logs have them; else also the commonest ones
    ours: bool = True  # whether our own rows are logged too
    threads: int = 1
    late: int = 0  # processes that read late


@dataclass(slots=True)
class ParityResult:
    """One model's figures, by engine and setting."""

    name: str
    texts: int = 0
    passed: int = 0  # of ours
    tokens: int = 0
    agreed: defaultdict[str, LogitAgreement] = field(default_factory=lambda: defaultdict(LogitAgreement))
    written: defaultdict[str, AnswerAgreement] = field(default_factory=lambda: defaultdict(AnswerAgreement))
    bytes: dict[str, int] = field(default_factory=dict)


def compared(
    loaded: LoadedModel, molecules: Sequence[Molecule], plan: ParityPlan, log_file: Path, aside: Path
) -> ParityResult:
    """Write the log of all engines, and sum up how far they agree. GGUF files stay in the folder ``aside``."""
    writer = Writer(loaded, molecules)
    files = gguf_files(loaded, plan, aside)
    wanted = wanted_values(writer, plan)
    with LogFile(log_file, wanted) as lines, ExitStack() as stack:
        weights = {setting: stack.enter_context(Weights(files[setting.name])) for setting in plan.settings}
        run = _Run(writer, plan, files, weights, lines)
        for number in range(len(molecules)):
            run.text(number)
            log.info("%s: %d of %d texts", loaded.entry.name, number + 1, len(molecules))
        if plan.late:
            run.late(aside)
    return run.result


def wanted_values(writer: Writer, plan: ParityPlan) -> LoggedColumns:
    """The most common ids are those of answers, which are generated once before."""
    if plan.first:
        return LoggedColumns(plan.values)
    answers = (writer.text(number).answer for number in range(len(writer.molecules)))
    return LoggedColumns(ids=ids_to_log(answers, plan.values))


def gguf_files(loaded: LoadedModel, plan: ParityPlan, aside: Path) -> dict[str, Path]:
    """By setting's name; those of one file type share a file."""
    stem = loaded.entry.name.replace(":", "-")
    found: dict[str, Path] = {}
    whole = aside / f"{stem}.gguf"
    write_gguf(loaded, whole)
    for setting in plan.settings:
        path = found[setting.name] = whole if setting.is_whole else aside / f"{stem}-{setting.name}.gguf"
        if not setting.is_whole:
            quantised(whole, path, setting, plan.threads)
    return found


class _Run:
    """One model's texts, each through every setting; the order of entries is the same in every log."""

    def __init__(
        self,
        writer: Writer,
        plan: ParityPlan,
        files: Mapping[str, Path],
        weights: Mapping[LlamaSetting, Weights],
        lines: LogFile,
    ) -> None:
        self.writer, self.plan, self.files, self.weights, self.lines = writer, plan, files, weights, lines
        self.ids = lines.wanted.ids or None
        self.columns = lines.wanted.columns(writer.size)
        sizes = {name: path.stat().st_size for name, path in files.items()}
        self.result = ParityResult(writer.loaded.entry.name, bytes=sizes)

    def text(self, number: int) -> None:
        text = self.writer.text(number, self.lines if self.plan.ours else None)
        self.result.texts += 1
        self.result.passed += text.passed
        self.result.tokens += len(text.answer)
        self.result.agreed[TRANSFORMERS].add(text.rows, self.writer.by_transformers(text))
        for setting in self.plan.settings:
            self.result.agreed[setting.name].add(text.rows, self._along(text, setting))
            self._alone(number, text, setting)

    def _along(self, text: ReferenceAnswer, setting: LlamaSetting) -> Rows:
        """llama.cpp's rows [T, V] for each of our tokens, logged at the step."""
        names = names_of_line(ENGINE, self.result.name, setting.name, self.weights[setting].rows)
        rows = np.empty_like(text.rows)
        with self._session(text, setting) as session:
            for place, whole in enumerate(session.along(text.prompt, text.answer)):
                rows[place] = whole[: self.writer.size]
                token, source = text.answer[place], text.molecule.smiles
                self.lines.write(line(names, place, source, whole[self.columns], self.ids, token))
        return rows

    def _alone(self, number: int, text: ReferenceAnswer, setting: LlamaSetting) -> None:
        """llama.cpp's own greedy answer."""
        with self._session(text, setting) as session:
            answer = session.greedy(text.prompt, text.limit, self.writer.end, self.writer.size)
        self.result.written[setting.name].add(text.answer, answer, passed=self.writer.passes(number, answer))

    def _session(self, text: ReferenceAnswer, setting: LlamaSetting) -> Session:
        positions = len(text.prompt) + text.limit + SPARE
        return Session(self.weights[setting], setting, positions=positions, threads=self.plan.threads)

    def late(self, aside: Path) -> None:
        """The first text's tokens, read too late, in one process after the other: that text once more each."""
        text = self.writer.text(0)
        asked = LateRequest(text.prompt, text.answer[:LATE_TOKENS], min(self.plan.values, LATE_VALUES))
        whole, rows = next(
            (self.files[setting.name], self.weights[setting].rows) for setting in self.plan.settings if setting.is_whole
        )
        for process in range(self.plan.late):
            source = f"{text.molecule.smiles} process {process + 1}" if process else text.molecule.smiles
            for way, values in read_late(whole, asked, aside).items():
                names = names_of_line(f"{ENGINE} read {way}", self.result.name, "f32", rows)
                for entry in late_lines(names, source, values):
                    self.lines.write(entry)


def late_lines(names: Mapping[str, str], source: str, values: Values) -> Iterator[str]:
    """Without rows that could not be read at all, where an engine would have crashed."""
    for place, row in enumerate(values):
        if not np.isnan(row).all():
            yield line(names, place, source, row)


def line(
    names: Mapping[str, str],
    token_idx: int,
    source: str,
    values: Rows,
    ids: Sequence[int] | None = None,
    token: int | None = None,
) -> str:
    """One entry; each number as the shortest text that reads as the same one."""
    entry: dict[str, object] = {**names, "token_idx": token_idx, "source": source}
    if token is not None:
        entry["token"] = token
    if ids is not None:
        entry["ids"] = list(ids)
    return json.dumps({**entry, "values": [float(str(value)) for value in values]}) + "\n"
