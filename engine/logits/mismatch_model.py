"""The same causes with the checkpoint at hand: what each stream is of, and the exact part of each cause.

The checkpoint reads the ids once. Of each stream its *recipe* is sought: ids, temperature, filters and LP's mask with
which the checkpoint's own log-probabilities are the stream's, the fewest that do. Then the control's recipe becomes the
test's, one step at a time in the order of ``Cause``: a step's part is what it changes. What is left is *precision*
where it is small, else *unexplained*. Filters are sought near usual ones; penalties for repetition and other weights
are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.chem.enriched import described, prompt_of
from engine.chem.smiles import parse_written
from engine.decode.diagnosis import log_chances
from engine.decode.plan import Sampling
from engine.decode.scoring import ReadBatch, Stored, check_stored, reader_of
from engine.decode.steps import Counters
from engine.figures.words import signed_nat
from engine.logits.mismatch import NOISE, Cause, Part, certain_parts, noise_of, rest_part, retokenised_words, scaled
from engine.logits.token_streams import Floats, Logged, Streams, Whole
from engine.lp.constraint import Constraint
from engine.lp.unconstrained import Unconstrained
from engine.models.loading import LoadedModel
from engine.records import Descriptors

MOST_SCORED = 8_192
FITTED, COLUMNS = 128, 1_024  # tokens that recipes are tried on, and their likeliest next tokens
TEMPERATURES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0)
USUAL_FILTERS: tuple[dict[str, Any], ...] = (
    {},
    *({"top_p": p} for p in (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)),
    *({"top_k": k} for k in (5, 10, 20, 40, 50, 70, 100)),
    *({"min_p": p} for p in (0.01, 0.02, 0.05, 0.075, 0.1, 0.2)),
    *({"top_k": k, "top_p": p} for k, p in ((20, 0.8), (20, 0.95), (50, 0.9))),
)
REFINED = 5  # kinds of recipes whose sizes are sought between the usual ones
COST, BETTER = 0.002, 0.7  # what a part of a recipe has to gain, and all of them together
PLAIN = Sampling()
PROCESSING: tuple[Cause, ...] = ("temperature", "filters' mass", "the LP's mask")


@dataclass(frozen=True, slots=True)
class Recipe:
    source: str  # "control", "test", or "split": ids of the control's text as the tokenizer splits it
    sampling: Sampling = PLAIN
    has_lp: bool = False

    def __str__(self) -> str:
        parts = [f"{name.replace('_', '-')} {getattr(self.sampling, name):g}" for name in changed(self.sampling)]
        return ", ".join([*parts, *(["the LP's mask"] if self.has_lp else [])]) or "raw"


def changed(sampling: Sampling) -> tuple[str, ...]:
    return tuple(name for name in asdict(PLAIN) if getattr(sampling, name) != getattr(PLAIN, name))


def near(sampling: Sampling, step: float) -> Iterator[Sampling]:
    """It, and with one of what it changes a step smaller or larger."""
    yield sampling
    for name in changed(sampling):
        size = max(1, round(100 * step)) if name == "top_k" else step
        for value in (getattr(sampling, name) - size, getattr(sampling, name) + size):
            if value > 0 and (value <= 1 or name in ("temperature", "top_k")):
                yield replace(sampling, **{name: round(value, 3)})


class Checkpoint:
    """Its values of the tokens of ``streams``, by recipe."""

    def __init__(
        self, streams: Streams, loaded: LoadedModel, constraint: Constraint | None, style: Descriptors
    ) -> None:
        tokenizer = loaded.tokenizer
        by = constraint or Unconstrained(tokenizer.vocab_size, loaded.vocab_rows)
        self.lps = (False,) if constraint is None else (False, True)
        control = [one.ids.tolist() for one, _ in streams.sequences]
        test = [other.ids.tolist() for _, other in streams.sequences]
        # What a program may have scored in place of the control's ids.
        split = [list(tokenizer.encode(tokenizer.decode(ids))) for ids in control]
        sources = {"control": (control, streams.at_control), "test": (test, streams.at_test)}
        sources["split"] = split, streams.at_control
        stored, count = list[Stored](), 0
        self.numbers = dict[str, Whole]()  # [N] by source: which of the tokens of all answers, -1: none
        for name, (sequences, at) in sources.items():
            if name != "control" and sequences == control:
                continue
            table = np.full((len(sequences), max(map(len, control + test + split))), -1)  # by sequence and place
            for row, (one, _), ids in zip(table, streams.sequences, sequences, strict=True):
                stored.append(stored_of(loaded, one, ids, by, style))
                size = len(stored[-1].answer)
                row[len(ids) - size : len(ids)] = np.arange(count, count + size)
                count += size
            self.numbers[name] = table[streams.sequence, at]
        check_stored(reader := reader_of(loaded), by, stored, tokenizer.vocab_size)
        self.batch = ReadBatch(reader, by.automaton, stored, tokenizer.vocab_size, Counters(), lambda: None)
        self.values = cache(self._values)

    def _values(self, recipe: Recipe) -> Floats:
        """[N] not a number where it has none, as of a prompt."""
        numbers = self.numbers[recipe.source]
        out, parts = np.full(len(numbers), np.nan), [torch.empty(0)]
        known = torch.from_numpy(numbers[numbers >= 0])
        for scores, allowed, token in self.batch.parts(known, has_lp=recipe.has_lp):
            parts.append(log_chances(scores.log_softmax(dim=-1), allowed, token, recipe.sampling)[:, -1].cpu())
        out[numbers >= 0] = torch.cat(parts).numpy()
        return out

    def likeliest(self, numbers: Whole, *, has_lp: bool) -> Tensor:
        """[n, K] log-probabilities of the token that came and of the likeliest others."""
        parts = []
        for scores, allowed, token in self.batch.parts(torch.from_numpy(numbers), has_lp=has_lp):
            log_p = scores.masked_fill(~allowed, -torch.inf).log_softmax(dim=-1)
            top = log_p.topk(min(COLUMNS, log_p.shape[1]), dim=-1)
            others = top.values.masked_fill(top.indices == token[:, None], -torch.inf)
            parts.append(torch.cat([log_p.gather(1, token[:, None]), others], dim=1).cpu())
        return torch.cat(parts)

    def recipe_of(self, side: str, stream: Floats, known: Sampling = PLAIN) -> Recipe:
        """That brings its values nearest to the stream's; ``known`` is tried with the usual ones."""
        sources = [side if side in self.numbers else "control", *({"split"} & self.numbers.keys())]
        source = min(sources, key=lambda name: noise_of(self.values(Recipe(name)), stream))
        raw = self.values(Recipe(source))
        usable = np.flatnonzero(np.minimum(raw, stream) < -NOISE)  # both are known, and one is not certain
        if noise_of(raw, stream) <= NOISE or not len(usable):
            return Recipe(source)
        places = usable[np.linspace(0, len(usable) - 1, min(FITTED, len(usable))).astype(int)]
        likeliest = {has_lp: self.likeliest(self.numbers[source][places], has_lp=has_lp) for has_lp in self.lps}

        @cache
        def noise(sampling: Sampling, has_lp: bool) -> float:
            log_p = likeliest[has_lp]
            ln_q = log_chances(log_p, log_p.isfinite(), torch.zeros(len(log_p), dtype=torch.int64), sampling)[:, -1]
            off = scaled(ln_q.numpy(), stream[places])
            cost = COST * ((sampling.temperature != 1) + sampling.has_filters + has_lp)
            return float(np.sqrt((np.nan_to_num(off, nan=1.0) ** 2).mean())) + cost

        usual = [Sampling(temperature, **filters) for filters in USUAL_FILTERS for temperature in TEMPERATURES]
        kinds = dict[Any, Recipe]()  # the best of each, since a size between two usual ones fits with other parts, too
        for sampling, has_lp in sorted(product([*usual, known], self.lps), key=lambda pair: noise(*pair)):
            kinds.setdefault((changed(sampling), has_lp), Recipe(source, sampling, has_lp))
        tried = [Recipe(source)]
        for recipe in list(kinds.values())[:REFINED]:
            for step in (0.05, 0.02, 0.01, 0.005, 0.002, 0.001):
                sampling = min(near(recipe.sampling, step), key=lambda of: noise(of, recipe.has_lp))
                recipe = replace(recipe, sampling=sampling)
            tried.append(recipe)
        best = min(tried, key=lambda recipe: noise(recipe.sampling, recipe.has_lp))
        return best if noise(best.sampling, best.has_lp) < BETTER * noise(PLAIN, False) else Recipe(source)


def stored_of(loaded: LoadedModel, logged: Logged, ids: list[int], by: Constraint, style: Descriptors) -> Stored:
    """Prompt and answer; of a file without the tags all behind the first token is the answer."""
    tokenizer, smiles = loaded.tokenizer, logged.smiles
    prompt, answer = [*loaded.begin_ids, *tokenizer.encode(prompt_of(smiles))], ids
    if not smiles:
        tag = tokenizer.encode("[/SMILES]")[-1]
        first = len(ids) - ids[::-1].index(tag) if tag in ids else 1
        prompt, answer = ids[:first], ids[first:]
        smiles = tokenizer.decode(ids[: first - 1]).rpartition("[SMILES]")[2]
    molecule = "C" if isinstance(by, Unconstrained) else smiles or "C"  # without an LP any does
    return Stored(tuple(prompt), tuple(answer), by.compile(described(parse_written(molecule), style)))


@torch.inference_mode()
def explain(
    streams: Streams, loaded: LoadedModel, constraint: Constraint | None = None, style: Descriptors = "plain"
) -> list[Part]:
    """A test without values is the checkpoint itself."""
    if not len(streams.control):
        return []
    checkpoint = Checkpoint(streams, loaded, constraint, style)
    if np.isnan(streams.test).all():
        own = checkpoint.values(Recipe("control"))
        streams = replace(streams, test=np.where(np.isfinite(own), own, streams.control))
    parts, control = certain_parts(streams)
    test = np.where(np.isfinite(control), streams.test, np.nan)
    if not streams.retokenised and noise_of(control, test) <= NOISE:
        return [*parts, rest_part(control, test)]
    first = checkpoint.recipe_of("control", control)
    last = checkpoint.recipe_of("test", test, first.sampling)
    steps = {cause: nat * np.isfinite(control) for cause, nat in steps_of(streams, first, last, checkpoint).items()}
    explained = control + sum(steps.values())
    both = f"{first} against {last}"
    details: dict[Cause, str] = {"retokenised": retokenised_words(streams), "raw against processed": both}
    processing = [cause for cause in PROCESSING if cause in steps]
    if len(processing) > 1:
        sizes = [f"{cause} {signed_nat(float(steps[cause].mean()))}" for cause in processing]
        details["raw against processed"] += f" ({', '.join(sizes)})"
        steps["raw against processed"] = np.sum([steps.pop(cause) for cause in processing], axis=0)
    rest = rest_part(explained, test)
    for cause, nat in steps.items():
        parts.append(Part(cause, nat, "hint" if rest.known else "certain", details.get(cause, both)))
    return [*parts, rest]


def steps_of(streams: Streams, first: Recipe, last: Recipe, checkpoint: Checkpoint) -> dict[Cause, Floats]:
    """From the control's recipe to the test's: by cause [N] what its step changes, where there is one."""
    own = replace(first, source=last.source)
    tempered = replace(own, sampling=replace(first.sampling, temperature=last.sampling.temperature))
    processed = [tempered, replace(own, sampling=last.sampling), last]
    steps, before = dict[Cause, Floats](), first
    for cause, after in zip(("retokenised", *PROCESSING), [own, *processed], strict=True):
        if after != before or (cause == "retokenised" and streams.retokenised):
            steps[cause] = np.nan_to_num(checkpoint.values(after) - checkpoint.values(before))
        before = after
    return steps
