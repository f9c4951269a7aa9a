"""Drift of known coordinates against a template: template's FREE count minus the tokens that a block needs.

Positive drift leaves FREE positions over, which a position LP fills with junk; negative drift cuts the number before
its last digits. Needs are counted in the canonical tokenisation of the whole enriched text. What a model would
really have written is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.text.template import FREE, block_spans, build_templates, token_roles
from engine.text.tokenizers import TextTokenizer

_CONTENT = re.compile(r"[^<>\[\]]*")
_DESCRIPTOR = re.compile(r"\[[^<>\[\]\r\n]+\]")


@dataclass(frozen=True, slots=True, eq=False)
class BlockDrift:
    """Drift of every block of one text."""

    contents: tuple[str, ...]  # [blocks] the numbers as written
    template_free: NDArray[np.int64]  # [blocks]
    needed: NDArray[np.int64]  # [blocks]

    @property
    def drift(self) -> NDArray[np.int64]:  # [blocks]
        return self.template_free - self.needed


@dataclass(frozen=True, slots=True)
class DriftSummary:
    """Blocks by the sign of their drift, and how many blocks have each drift."""

    tokenizer: str
    placeholder: str
    blocks: int
    exact: int
    junk_prone: int
    cut: int
    histogram: dict[int, int]
    tokens_per_atom: float = 0.0  # that the numbers need, whatever the placeholder

    def share(self, count: int) -> float:
        return count / self.blocks if self.blocks else 0.0

    @property
    def mean_drift(self) -> float:
        total = sum(drift * count for drift, count in self.histogram.items())
        return total / self.blocks if self.blocks else 0.0

    @property
    def mean_distance(self) -> float:
        """Mean number of tokens, of either sign, by which a block misses the template."""
        total = sum(abs(drift) * count for drift, count in self.histogram.items())
        return total / self.blocks if self.blocks else 0.0


def needed_tokens(texts: Sequence[str], tokenizer: TextTokenizer) -> list[NDArray[np.int64]]:
    """For each enriched text, the tokens that lie wholly inside each of its blocks."""
    needs = []
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        spans = block_spans(text)
        roles, block_of = token_roles(*tokenizer.offsets(text, ids), spans, len(text))
        needs.append(np.bincount(block_of[roles == FREE], minlength=len(spans)).astype(np.int64))
    return needs


def block_drifts(texts: Sequence[str], tokenizer: TextTokenizer, placeholder: str) -> list[BlockDrift]:
    """Drift of each block of each enriched text against the template of its own molecule."""
    templates = build_templates(texts, tokenizer, placeholder)
    needs = needed_tokens(texts, tokenizer)
    return [
        BlockDrift(block_contents(text), template.free_per_block, needed)
        for text, template, needed in zip(texts, templates, needs, strict=True)
    ]


def needed_by_content(blocks: Sequence[tuple[str, str]], tokenizer: TextTokenizer) -> list[int]:
    """Tokens that single contents need, each given with the descriptor before it, which may merge with a sign."""
    # One text with a line for each: a call a block would cost more than all the rest of an alignment.
    sound = [index for index, (_, content) in enumerate(blocks) if _CONTENT.fullmatch(content)]
    probes = [
        f"{descriptor if _DESCRIPTOR.fullmatch(descriptor) else '[C]'}<{content}>["
        for descriptor, content in (blocks[index] for index in sound)
    ]
    needs = needed_tokens(["\n".join(probes)], tokenizer)[0].tolist()
    by_block = dict(zip(sound, needs, strict=True))
    return [by_block.get(index, 0) for index in range(len(blocks))]


def block_contents(text: str) -> tuple[str, ...]:
    """What stands between ``<`` and ``>`` of each block of well-formed enriched text."""
    return tuple(text[start + 1 : end - 1] for start, end in block_spans(text).tolist())


def summarise(drifts: Sequence[BlockDrift], tokenizer: str, placeholder: str) -> DriftSummary:
    every = np.concatenate([np.zeros(0, dtype=np.int64), *(drift.drift for drift in drifts)])
    values, counts = np.unique(every, return_counts=True)
    return DriftSummary(
        tokenizer=tokenizer,
        placeholder=placeholder,
        blocks=len(every),
        exact=int((every == 0).sum()),
        junk_prone=int((every > 0).sum()),
        cut=int((every < 0).sum()),
        histogram=dict(zip(values.tolist(), counts.tolist(), strict=True)),
        tokens_per_atom=sum(int(drift.needed.sum()) for drift in drifts) / max(len(every), 1),
    )


def drift_summary(texts: Sequence[str], tokenizer: TextTokenizer, placeholder: str) -> DriftSummary:
    """How the blocks of these texts would fare under a position LP with this placeholder."""
    return summarise(block_drifts(texts, tokenizer, placeholder), tokenizer.name, placeholder)
