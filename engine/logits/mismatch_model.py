"""The same causes with the checkpoint at hand: what each stream is of, and the exact part of each cause.

The checkpoint reads the ids once. Of each stream its *recipe* is sought: lag, ids, temperature, filters and LP's mask
with which the checkpoint's own log-probabilities are the stream's, the fewest that do. Then the control's recipe
becomes the test's, one step at a time in the order of ``CAUSES``: a step's part is what it changes. What is left is
*precision* where it is small, else *unexplained*. Filters are sought among usual ones; penalties for repetition and
other weights are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
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
from engine.logits import mismatch as words
from engine.logits.mismatch import NOISE, Analysis, Finding, best_lag, constant_ends, moved, noise_of, scaled
from engine.logits.token_streams import Floats, Logged, Streams, Whole
from engine.lp.constraint import Constraint
from engine.lp.unconstrained import Unconstrained
from engine.models.loading import LoadedModel
from engine.records import Descriptors

MOST_SCORED = 8_192
FITTED, COLUMNS = 128, 1_024  # tokens that recipes are tried on, and their likeliest next tokens
TEMPERATURES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0)
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    *({"top_p": p} for p in (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)),
    *({"top_k": k} for k in (5, 10, 20, 40, 50, 70, 100)),
    *({"min_p": p} for p in (0.01, 0.02, 0.05, 0.075, 0.1, 0.2)),
    *({"top_k": k, "top_p": p} for k, p in ((20, 0.8), (20, 0.95), (50, 0.9))),
)
COST, BETTER = 0.002, 0.7  # what a part of a recipe has to gain, and all of them together
PLAIN = Sampling()


@dataclass(frozen=True, slots=True)
class Recipe:
    source: str  # "control", "test", or "split": ids of the control's text as the tokenizer splits it
    lag: int = 0
    sampling: Sampling = PLAIN
    has_lp: bool = False


class Scores:
    """What the checkpoint gives the tokens of ``streams``, whose sequences have these ``ids``, at places ``at``."""

    def __init__(
        self, loaded: LoadedModel, streams: Streams, ids: Sequence[Whole], at: Whole, by: Constraint, style: Descriptors
    ) -> None:
        stored, behind = list[Stored](), list[int]()  # tokens of the answer, from which on there are values
        for (one, _), of in zip(streams.sequences, ids, strict=True):
            prompt, answer, named = split_prompt(loaded, one, of.tolist())
            smiles = "C" if isinstance(by, Unconstrained) else named  # which asks for no molecule
            stored.append(Stored(prompt, answer, by.compile(described(parse_written(smiles), style))))
            behind.append(0 if one.smiles else len(prompt))
        check_stored(reader := reader_of(loaded), by, stored, loaded.tokenizer.vocab_size)
        self.batch = ReadBatch(reader, by.automaton, stored, loaded.tokenizer.vocab_size, Counters(), lambda: None)
        lengths = np.array([len(one.answer) for one in stored])
        in_answer = at - np.array(behind)[streams.sequence]
        self.known = (in_answer >= 0) & (in_answer < lengths[streams.sequence])
        self.numbers = torch.from_numpy((np.cumsum(lengths) - lengths)[streams.sequence] + in_answer)

    def values(self, sampling: Sampling, *, has_lp: bool) -> Floats:
        """[N] NaN where the checkpoint has none, as of a prompt."""
        out = np.full(len(self.known), np.nan)
        parts = [np.empty(0)]
        for scores, allowed, token in self.batch.parts(self.numbers[torch.from_numpy(self.known)], has_lp=has_lp):
            log_p = scores.log_softmax(dim=-1)
            if sampling == PLAIN and not has_lp:
                parts.append(log_p.gather(1, token[:, None])[:, 0].double().cpu().numpy())
            else:
                parts.append(log_chances(log_p, allowed, token, sampling)[:, -1].cpu().numpy())
        out[self.known] = np.concatenate(parts)
        return out

    def likeliest(self, places: Whole, *, has_lp: bool) -> tuple[Tensor, Tensor]:
        """[n, K] log-probabilities of likely tokens and the one that came, and the column [n] of that one."""
        parts = []
        for scores, allowed, token in self.batch.parts(self.numbers[torch.from_numpy(places)], has_lp=has_lp):
            log_p = scores.masked_fill(~allowed, -torch.inf).log_softmax(dim=-1)
            ids = log_p.topk(min(COLUMNS, log_p.shape[1]), dim=-1).indices
            ids[:, -1:] = torch.where((ids == token[:, None]).any(dim=1, keepdim=True), ids[:, -1:], token[:, None])
            parts.append((log_p.gather(1, ids).cpu(), (ids == token[:, None]).int().argmax(dim=1).cpu()))
        return torch.cat([log_p for log_p, _ in parts]), torch.cat([column for _, column in parts])


def split_prompt(loaded: LoadedModel, one: Logged, ids: list[int]) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Prompt, answer and SMILES; of a file without the tags all behind the first token is the answer."""
    tokenizer = loaded.tokenizer
    if one.smiles:
        return (*loaded.begin_ids, *tokenizer.encode(prompt_of(one.smiles))), tuple(ids), one.smiles
    (tag,) = tokenizer.encode("[/SMILES]")[-1:]
    first = len(ids) - ids[::-1].index(tag) if tag in ids else 1
    smiles = tokenizer.decode(ids[: first - 1]).rpartition("[SMILES]")[2] if first > 1 else "C"
    return tuple(ids[:first]), tuple(ids[first:]), smiles


class Checkpoint:
    """Its values of the tokens of ``streams``, by recipe."""

    def __init__(
        self, streams: Streams, loaded: LoadedModel, constraint: Constraint | None, style: Descriptors
    ) -> None:
        by = constraint or Unconstrained(loaded.tokenizer.vocab_size, loaded.vocab_rows)
        self.streams, self.is_lp = streams, (False,) if constraint is None else (False, True)
        again = [np.array(loaded.tokenizer.encode(one.text), dtype=np.int64) for one, _ in streams.sequences]
        of = {"control": ([one.ids for one, _ in streams.sequences], streams.at_control)}
        of["test"] = [other.ids for _, other in streams.sequences], streams.at_test
        of["split"] = again, streams.at_control  # what a program may have scored in place of the control's ids
        self.scores = {
            name: Scores(loaded, streams, ids, at, by, style)
            for name, (ids, at) in of.items()
            if name == "control" or not all(map(np.array_equal, ids, of["control"][0]))
        }
        self.values = cache(self._values)

    def _values(self, recipe: Recipe) -> Floats:
        if recipe.lag:
            return moved(self.values(replace(recipe, lag=0)), self.streams, recipe.lag)
        return self.scores[recipe.source].values(recipe.sampling, has_lp=recipe.has_lp)

    def recipe_of(self, side: str, stream: Floats, known: Sampling) -> Recipe:
        inner = np.where(constant_ends(stream, self.streams), np.nan, stream)
        sources = [side if side in self.scores else "control", *({"split"} & self.scores.keys())]
        source = min(sources, key=lambda name: noise_of(self.values(Recipe(name)), inner))
        recipe = Recipe(source, best_lag(self.values(Recipe(source)), inner, self.streams))
        late = self.values(recipe)
        if noise_of(late, inner) <= NOISE:
            return recipe
        return fitted(recipe, self.scores[source], late, inner, self.is_lp, known)


@torch.inference_mode()
def explain(
    streams: Streams, loaded: LoadedModel, constraint: Constraint | None = None, style: Descriptors = "plain"
) -> Analysis:
    """Parts of the first ``MOST_SCORED`` tokens or so. A test without values is the checkpoint itself."""
    ends = np.cumsum([max(len(one.ids), len(other.ids)) for one, other in streams.sequences])
    streams = streams.first(max(1, int((ends <= MOST_SCORED).sum())))
    texts = [[replace(of, text=loaded.tokenizer.decode(of.ids.tolist())) for of in both] for both in streams.sequences]
    streams = replace(streams, sequences=[(one, other) for one, other in texts])
    checkpoint = Checkpoint(streams, loaded, constraint, style)
    if np.isnan(streams.test).all():
        own = checkpoint.values(Recipe("control"))
        streams = replace(streams, test=np.where(np.isfinite(own), own, streams.control))
    first = last = Recipe("control")
    if streams.retokenised or noise_of(streams.control, streams.test) > NOISE:
        first = checkpoint.recipe_of("control", streams.control, PLAIN)
        last = checkpoint.recipe_of("test", streams.test, first.sampling)
    return explained(streams, first, last, checkpoint.values)


def fitted(
    recipe: Recipe, scores: Scores, late: Floats, stream: Floats, is_lp: Sequence[bool], known: Sampling
) -> Recipe:
    """With the temperature, filters and mask that bring the checkpoint's values (``late``) nearest to the stream's."""
    usable = np.flatnonzero(np.minimum(late, stream) < -NOISE)  # both are known, and one is not certain
    if not len(usable):
        return recipe
    places = usable[np.linspace(0, len(usable) - 1, min(FITTED, len(usable))).astype(int)]
    likeliest = {has_lp: scores.likeliest(places - recipe.lag, has_lp=has_lp) for has_lp in is_lp}

    @cache
    def noise(sampling: Sampling, has_lp: bool) -> float:
        log_p, column = likeliest[has_lp]
        off = scaled(log_chances(log_p, log_p.isfinite(), column, sampling)[:, -1].numpy(), stream[places])
        cost = COST * ((sampling.temperature != 1) + sampling.has_filters + has_lp)
        return float(np.sqrt((np.nan_to_num(off, nan=1.0) ** 2).mean())) + cost

    tried = [(Sampling(t, **filters), has_lp) for filters in FILTERS for t in TEMPERATURES for has_lp in is_lp]
    best = min([*tried, *((known, has_lp) for has_lp in is_lp)], key=lambda pair: noise(*pair))
    for step in (0.05, 0.02, 0.01, 0.005, 0.002, 0.001):
        near = [round(best[0].temperature + way, 3) for way in (0, -step, step)]
        best = min([(replace(best[0], temperature=t), best[1]) for t in near], key=lambda pair: noise(*pair))
    is_found = noise(*best) < BETTER * noise(PLAIN, False)
    return replace(recipe, sampling=best[0], has_lp=best[1]) if is_found else recipe


def explained(streams: Streams, first: Recipe, last: Recipe, values: Callable[[Recipe], Floats]) -> Analysis:
    """From the control's recipe to the test's, a part each step."""
    states, details = steps_of(streams, first, last, values)
    parts = {cause: np.zeros(len(streams.test)) for cause in words.CAUSES}
    named = dict[str, str]()
    for cause, before, after in zip(details, states[:-1], states[1:], strict=True):
        parts[cause] = after - before
        is_plain = {words.MASKED: bool((before != after).any()), words.RETOKENISED: streams.retokenised > 0}
        if noise_of(before, after) > NOISE or is_plain.get(cause):
            named[cause] = details[cause]
    processing = [cause for cause in (words.TEMPERATURE, words.FILTERS, words.LP_MASK) if cause in named]
    if len(processing) > 1:
        sizes = [f"{cause} {signed_nat(float(parts[cause].mean()))}" for cause in processing]
        named[words.PROCESSED] = f"{named[processing[0]]} ({', '.join(sizes)})"
        for cause in processing:
            parts[words.PROCESSED] = parts[words.PROCESSED] + parts[cause]
            parts[cause] = np.zeros(len(streams.test))
            del named[cause]
    rest = (streams.test - streams.control) - (states[-1] - states[0])
    noise = noise_of(streams.test - rest, streams.test)
    cause = words.PRECISION if noise <= words.MOST_NOISE else words.UNEXPLAINED
    parts[cause] = rest
    findings = [Finding(name, noise <= NOISE, detail) for name, detail in named.items()]
    findings += [Finding(cause, False, words.HINTS[cause])] if noise > NOISE else []
    return Analysis(streams, parts, findings)


def steps_of(
    streams: Streams, first: Recipe, last: Recipe, values: Callable[[Recipe], Floats]
) -> tuple[list[Floats], dict[str, str]]:
    """The states on the way, and by cause what its step is about."""
    observed = {"control": (streams.control, first), "test": (streams.test, last)}
    masked = {
        side: constant_ends(stream, streams) & ~(scaled(values(recipe), stream) <= words.NOISE_OF_TOKEN)
        for side, (stream, recipe) in observed.items()
    }

    def state(recipe: Recipe, edges: str = "test", masks: str = "test") -> Floats:
        """As a stream of this recipe would be. At edges and at masked tokens it is as one of the two is."""
        computed = values(recipe)
        computed = np.where(np.isfinite(computed), computed, observed[edges][0])
        return np.where(masked[masks], observed[masks][0], computed)

    late = replace(first, lag=last.lag)
    own = replace(late, source=last.source)
    tempered = replace(own, sampling=replace(first.sampling, temperature=last.sampling.temperature))
    filtered = replace(own, sampling=last.sampling)
    states = [state(first, "control", "control"), state(late, "test", "control")]
    states += [state(recipe) for recipe in (late, own, tempered, filtered, last)]
    both = f"{recipe_words(first)} against {recipe_words(last)}"
    details = {
        words.SHIFTED: words.lag_words(last.lag - first.lag),
        words.MASKED: words.masked_words(masked["control"] ^ masked["test"]),
        words.RETOKENISED: words.retokenised_words(streams),
    } | dict.fromkeys((words.TEMPERATURE, words.FILTERS, words.LP_MASK), both)
    return states, details


def recipe_words(recipe: Recipe) -> str:
    names = ("temperature", "top_k", "top_p", "min_p")
    changed = [name for name in names if getattr(recipe.sampling, name) != getattr(PLAIN, name)]
    parts = [f"{name.replace('_', '-')} {getattr(recipe.sampling, name):g}" for name in changed]
    return ", ".join([*parts, *(["the LP's mask"] if recipe.has_lp else [])]) or "raw"
