"""Any LP inside anyone's ``model.generate``, as a ``transformers`` logits processor.

processor = logits_processor("exact", ["CCO", "CC=O"], folder, model.config.vocab_size)
model.generate(input_ids, attention_mask=mask, logits_processor=[processor])
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.chem.enriched import described
from engine.chem.smiles import parse_written
from engine.errors import ConstraintError
from engine.lp.constraint import LpParameters, build_constraint, end_of
from engine.lp.exact import ExactConstraint
from engine.lp.program_processor import ProgramProcessor
from engine.lp.shaped_processor import ShapedProcessor
from engine.lp_records import lp_record
from engine.records import Descriptors
from engine.text.tokenizers import load_tokenizer

__all__ = ["ProgramProcessor", "logits_processor"]


def logits_processor(
    lp: str,
    smiles: Sequence[str],
    tokenizer: str,
    vocab_rows: int,
    parameters: LpParameters | None = None,
    descriptors: Descriptors | None = None,
) -> ProgramProcessor:
    """An LP by its name, for prompts ``[SMILES]...[/SMILES]`` with these SMILES as they stand there.

    ``tokenizer`` is qwen3, llama3 or a folder; ``vocab_rows`` are the model's, its padding among them; ``descriptors``
    those that the LP forces, else plain. ``shaped`` has a `ShapedProcessor`.
    """
    record = lp_record(lp)
    if record.is_guarded and not record.asks_tokens:
        raise ConstraintError(
            f"{lp} takes tokens back, which a logits processor cannot", "Use exact here, or `driftscope generate`"
        )
    loaded = load_tokenizer(tokenizer)
    constraint = build_constraint(lp, loaded, vocab_rows, parameters)
    style = descriptors or record.descriptors or "plain"
    molecules = [described(parse_written(text), style) for text in smiles]
    if record.asks_tokens:
        assert isinstance(constraint, ExactConstraint)
        return ShapedProcessor(constraint, molecules, end_of(loaded))
    return ProgramProcessor(constraint.automaton, list(map(constraint.compile, molecules)), end_of(loaded))
