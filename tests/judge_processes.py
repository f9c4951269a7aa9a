"""What stands for judging in its process: it hangs, dies or answers, as the text says. Importable by that process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from engine.chem.verdict import JudgeSettings
from engine.inspection import rollout_judging
from engine.records import MoleculeVerdict, NumberFormat
from engine.sandbox import Answer

ANSWER = MoleculeVerdict(0, 0, None, True, ())


def scripted(settings: object) -> Callable[[str, str], Answer]:
    def judge(text: str, smiles: str) -> Answer:
        if text == "hang":
            time.sleep(3_600)
        if text == "die":
            os._exit(3)
        return msgspec.to_builtins(ANSWER), b""

    return judge


def scripted_rollouts(settings: JudgeSettings) -> Callable[[Sequence[dict[str, Any]], NumberFormat | None], Answer]:
    """What judges rollouts; a text "hang" or "die" does so as long as its molecule is judged."""
    judge = rollout_judging._judging(settings)

    def work(rows: Sequence[dict[str, Any]], form: NumberFormat | None) -> Answer:
        for row in rows:
            if "failed" not in row:
                scripted(settings)(row["text"], "")
        return judge(rows, form)

    return work
