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
    mean_drift: float
    mean_distance: float  # mean number of tokens, of either sign, by which a block misses the template
    tokens_per_atom: float  # that the numbers need, whatever the placeholder

    def share(self, count: int) -> float:
        return count / self.blocks if self.blocks else 0.0


def needed_tokens(texts: Sequence[str], tokenizer: TextTokenizer) -> list[NDArray[np.int64]]:
    """For each enriched text, the tokens that lie wholly inside each of its blocks."""
    needs = []
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        spans = block_spans(text)
        roles, block_of = token_roles(*tokenizer.offsets(text, ids), spans, len(text))
        needs.append(np.bincount(block_of[roles == FREE], minlength=len(spans)).astype(np.int64))
    return needs


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


def drift_summary(texts: Sequence[str], tokenizer: TextTokenizer, placeholder: str) -> DriftSummary:
    """How the blocks of these texts would fare under a position LP with this placeholder."""
    free = [template.free_per_block for template in build_templates(texts, tokenizer, placeholder)]
    free, needed = (
        np.concatenate([np.zeros(0, dtype=np.int64), *parts]) for parts in (free, needed_tokens(texts, tokenizer))
    )
    every, blocks = free - needed, len(free)
    values, counts = np.unique(every, return_counts=True)
    return DriftSummary(
        tokenizer=tokenizer.name,
        placeholder=placeholder,
        blocks=blocks,
        exact=int((every == 0).sum()),
        junk_prone=int((every > 0).sum()),
        cut=int((every < 0).sum()),
        histogram=dict(zip(values.tolist(), counts.tolist(), strict=True)),
        mean_drift=int(every.sum()) / max(blocks, 1),
        mean_distance=int(np.abs(every).sum()) / max(blocks, 1),
        tokens_per_atom=int(needed.sum()) / max(blocks, 1),
    )
