"""What is left of a stopped job of several runs: those to resume, those to begin, and the commands that do it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

from engine.runner.background import Input, Task, TaskSnapshot

Rest = tuple[str, list[str], list[Input], str]
"""Title, words, inputs, and what it is about: arguments of ``submit``."""
RESUME = "--resume"


def rest_of(task: Task, seen: TaskSnapshot, is_unfinished: Callable[[str], bool]) -> list[Rest]:
    """Commands that finish a stopped ``run``. Its parts are numbered as it begins them: models, and LPs within each.

    A run that was begun is resumed after its last saved batch; those that were not are begun with the same words.
    """
    if task.words[0] != "run":
        return []
    begun = {part.part: part for part in seen.parts}
    if RESUME in task.words:
        is_done = bool(begun) and all(part.has_ended for part in seen.parts)
        return [] if is_done else [(task.title, list(task.words), [], task.about)]
    models, lps = _values(task.words, "--model"), _values(task.words, "--lp")
    rest: list[Rest] = []
    missing: dict[str, list[str]] = {}
    for number, (model, lp) in enumerate(product(models or [""], lps or [""])):
        part = begun.get(number)
        if part is None:
            missing.setdefault(model, []).append(lp)
        elif not part.has_ended and is_unfinished(part.run_id):
            words = [*(word for word in task.words if word.startswith("--threads=")), RESUME, part.run_id]
            rest.append((f"Resume {part.run_id}", ["run", *words], [], part.run_id))
    inputs = [(path.name, path.read_bytes()) for path in task.inputs if path.exists()]
    for model, of_model in missing.items():
        chosen = [word for name, value in (("--model", model), *(("--lp", lp) for lp in of_model)) if value
                  for word in (name, value)]  # fmt: skip
        words = ["run", *chosen, *_without(task.words[1:], ("--model", "--lp"))]
        rest.append((f"{task.title}: {' · '.join(filter(None, (model, *of_model)))}", words, inputs, ""))
    return rest


def _values(words: tuple[str, ...], option: str) -> list[str]:
    return [value for name, value in pairwise(words) if name == option]


def _without(words: tuple[str, ...], options: tuple[str, ...]) -> list[str]:
    return [
        word for before, word in zip(("", *words), words, strict=False) if word not in options and before not in options
    ]
