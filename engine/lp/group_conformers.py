"""The group's control of several conformers in one answer: it counts their tags, and forces and bans those alone.

``group-conformers`` forces ``[CONFORMER]`` at the start and behind every ``[/CONFORMER]`` until the answer has so many,
then the end. ``-open`` does not force the end: the model may end its text or go on, also with further conformers. Both
ban ``[CONFORMER]`` inside a conformer, ``[SMILES]``, ``[/SMILES]`` and padding anywhere, and the end token before the
target. ``-grpo``, as it is attached in training, bans ``[SMILES]`` and padding. Nothing inside a conformer is
constrained. Conformers of the prompt's examples count, as they do in the group's code.

Padding is banned where it is a token of its own: in the group's tokenizers it is the end token. In the group's loop a
row that is done under ``-open`` is written on until all rows of its batch are done; here it ends by itself, or at its
limit, so that a sample does not depend on its batch.
"""

from __future__ import annotations

import numpy as np

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS
from engine.errors import ConstraintError
from engine.lp.constraint import LpParameters, end_of
from engine.lp.table import DEAD, ILLEGAL, NEXT, STAY, SYMBOLS, Automaton, Cells, Program
from engine.lp_records import CONFORMER_CONTROL
from engine.records import Molecule
from engine.text.tokenizers import TextTokenizer

PADDING = ("<|finetune_right_pad_id|>", "<pad>", "<|pad|>", "[PAD]")
"""Tokens that are nothing but padding, by their usual names."""
ANY, OPEN, CLOSE, SMILES, END = range(1, 6)
"""Classes: all else, and the tags and the end token one by one."""
INSIDE, BEHIND, FURTHER, ANYTHING = range(4)
"""Nodes: in a conformer before the target; behind the last one; in one beyond the target; in training."""


class GroupConformers:
    """One of the three for one tokenizer."""

    def __init__(self, name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> None:
        self.name, self.conformers = name, parameters.conformers
        self._left = max(0, parameters.conformers - parameters.conformers_before)
        self._variant = name.removeprefix(CONFORMER_CONTROL)
        self._open, self._end = _tag(tokenizer, OPEN_TAG), end_of(tokenizer)
        self.automaton = _automaton(tokenizer, vocab_rows, self._variant)

    def compile(self, molecule: Molecule) -> Program:
        cells = Cells()
        if self._variant == "-grpo":
            cells.choose(ANYTHING, -1)
            return cells.program()
        for _ in range(self._left):
            cells.force([self._open])
            cells.choose(INSIDE, -1)
        if self._variant == "-open":
            cells.choose(BEHIND, -1)
        else:
            cells.force([self._end])
        return cells.program()


build = GroupConformers


def _automaton(tokenizer: TextTokenizer, vocab_rows: int, variant: str) -> Automaton:
    classes = np.full(vocab_rows, DEAD, dtype=np.int16)
    classes[: tokenizer.vocab_size] = ANY
    end = end_of(tokenizer)
    never = [SMILES_TAGS[0]] if variant == "-grpo" else [*SMILES_TAGS]
    for token, kind in ((OPEN_TAG, OPEN), (CLOSE_TAG, CLOSE), *((tag, SMILES) for tag in never)):
        classes[_tag(tokenizer, token)] = kind
    classes[[id_ for id_ in map(tokenizer.id_of, PADDING) if id_ is not None and id_ != end]] = DEAD
    classes[end] = END
    goto = np.full((4, END + 1 + SYMBOLS), ILLEGAL, dtype=np.int16)
    move = np.full(goto.shape, STAY, dtype=np.int8)
    goto[INSIDE, [ANY, CLOSE]] = INSIDE
    move[INSIDE, CLOSE] = NEXT
    goto[BEHIND, [ANY, CLOSE, END]] = BEHIND
    goto[BEHIND, OPEN] = FURTHER
    goto[FURTHER, [ANY, END]] = FURTHER
    goto[FURTHER, CLOSE] = BEHIND
    goto[ANYTHING, [ANY, OPEN, CLOSE, END]] = ANYTHING
    inside = "a conformer, free but for tags and the end"
    rules = (inside, "behind the last conformer: no tag of a prompt", "a further conformer", "no [SMILES], no padding")
    return Automaton(classes, goto, move, rules)


def _tag(tokenizer: TextTokenizer, tag: str) -> int:
    id_ = tokenizer.id_of(tag)
    if id_ is None:
        raise ConstraintError(f"the tokenizer {tokenizer.name} has no token {tag}", "Use a tokenizer with the tags")
    return id_
