"""A run's own logits as a log: what each token was sampled from, in the format of every engine's log.

Values are copied at the step, from the tensor before the LP, and written at once; no tensor is read later. At the same
step the log checks itself: the written text is read back into the row, and the token is sampled from that row again. It
has to be the same token. The fast backend samples from a part of the output head that it computes by itself, so two
scores that differ in their last bit may swap: differences are counted. ``token_idx`` counts forced tokens, too.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from engine.decode.plan import Sampling
from engine.decode.sampling import sample, uniform
from engine.decode.steps import Choice, Tap
from engine.errors import RunError, shown
from engine.models.loading import LoadedModel

ENGINE = "driftscope"
LEVEL = 3  # of gzip: values hardly shrink
PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
# Share of tokens that may differ when sampled from the log: rounding changes far fewer.
MOST_DIFFERING, LEAST_CHECKED = 0.01, 1_000
Name = Callable[[int], str]  # gives a sample's name, the source of its entries
_NAMES = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


class LogFile:
    """The file that taps write to, always a new one: logs are never mixed. ``wanted`` are the ids of the values to be
    logged of each row, or how many of its first ones.
    ``differing`` tokens of ``checked`` were sampled differently from what was logged.
    """

    def __init__(self, path: Path, wanted: int | Sequence[int]) -> None:
        self.path, self.wanted = path, wanted
        self.entries = self.checked = self.differing = 0
        try:
            opened = partial(gzip.open, compresslevel=LEVEL) if path.suffix == ".gz" else open
            self._file: Any = opened(path, "xt", encoding="utf-8")
        except OSError as error:
            why = "is there already" if isinstance(error, FileExistsError) else f"cannot be written: {error.strerror}"
            raise RunError(f"{shown(path, 200)} {why}", "Give another file for the log") from error

    def tap(self, loaded: LoadedModel, sampling: Sampling, seed: int, source: str | Name = "") -> Tap:
        """Logs every choice of a run; ``source`` is a prefix of its samples' names, or gives each one's whole name."""
        tokens, has_ids = loaded.tokenizer.vocab_size, not isinstance(self.wanted, int)
        columns = [*range(min(self.wanted, tokens))] if isinstance(self.wanted, int) else [*self.wanted]
        if len({*columns}) < len(columns) or max(columns) >= tokens:
            problem = f"token {max(columns):,} cannot be logged, or one is given twice"
            raise RunError(problem, f"The tokenizer has 0 to {tokens - 1:,}")
        name_of = f"{source} sample {{}}".lstrip().format if isinstance(source, str) else source
        precision = str(loaded.dtype).removeprefix("torch.")
        names = names_of_line(ENGINE, loaded.entry.name, PRECISIONS.get(precision, precision), loaded.vocab_rows)
        head = json.dumps(names)[:-1]
        ids = f', "ids": {json.dumps(columns)}' if has_ids else ""

        def tap(choice: Choice) -> None:
            values = choice.raw[:, columns].to("cpu", torch.float32, copy=True).numpy()  # indexing copies
            # The shortest texts that read as the same numbers; the names are those that JSON's readers know.
            texts = [[_NAMES.get(text, text) for text in map(str, row)] for row in values]
            chosen = choice.tokens.tolist()
            for index, text in enumerate(texts):
                source = json.dumps(name_of(choice.samples[index]))
                self.write(
                    f'{head}, "token_idx": {choice.positions[index]}, "source": {source}, "token": {chosen[index]}, '
                    f'"forced": {json.dumps(choice.forced[index])}{ids}, "values": [{", ".join(text)}]}}\n'
                )
            free = [index for index, is_forced in enumerate(choice.forced) if not is_forced]
            if not free:
                return
            # Each free token is sampled again, by the same numbers, from the row as logged.
            again = choice.raw[free].clone()  # [F, V]
            logged = np.array([[float(text) for text in texts[index]] for index in free], dtype=np.float32)
            again[:, columns] = torch.from_numpy(logged).to(again.device)
            scores = again.masked_fill(~choice.allowed[free], -torch.inf)
            open_ = (scores.amax(dim=0) > -torch.inf).nonzero()[:, 0]
            keys = torch.tensor([choice.keys[index] for index in free], device=again.device)  # [F]
            steps = torch.tensor([choice.positions[index] for index in free], device=again.device)  # [F]
            drawn = open_[sample(scores[:, open_], sampling, uniform(seed, keys, steps))]
            self.checked += len(free)
            self.differing += int((drawn != choice.tokens[free]).sum())

        return tap

    def write(self, line: str) -> None:
        self._file.write(line)
        self.entries += 1

    def sentence(self) -> str:
        """What was logged; an error where tokens were drawn from other logits than those."""
        match = f"{self.checked - self.differing:,} of {self.checked:,} tokens match a draw from it"
        if self.differing > max(1, MOST_DIFFERING * max(self.checked, LEAST_CHECKED)):
            raise RunError(f"the log is not what was sampled from: {match}", "Report this")
        return f"logits of {self.entries:,} tokens; {match}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if not self.entries:
            self.path.unlink()


def names_of_line(engine: str, model: str, precision: str, rows: int) -> dict[str, str]:
    """What a line of our own logs says besides its values; ``rows`` is the length of a whole row."""
    where = {"checkpoint": "logits", "engine": engine, "origin": "measured"}
    return where | {"model": model, "precision": precision, "dtype": "f32", "shape": f"[{rows}]"}
