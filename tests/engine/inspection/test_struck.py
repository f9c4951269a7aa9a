"""What was struck, in words: the reason that is named holds for every place that the struck tokens leave."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan, preset
from engine.inspection.lost_token import Splits
from engine.inspection.struck import NO_PLACE, reason, struck_words
from engine.models.loading import load_model
from engine.models.registry import load_registry
from engine.records import TRIMMED4
from engine.text.blocks import find_blocks

SMILES = ["OC[C@H]1CCCN1", "C/C=C/C(=O)OC", "C[C@@H](O)[C@@H](N)C(=O)O"]
COMPLETIONS = 200
ONE_BY_ONE, THREE = Splits(1, comma_decides=True), Splits(3, comma_decides=True)


def completed(content: str, near: np.ndarray, draws: random.Random) -> tuple[float, ...]:
    """A place that a content begins with; the axes that it leaves open are near an atom, so that a bound could fail."""
    *done, current = content.split(",")
    if current.strip("-"):
        whole, point, decimals = current.partition(".")
        more = "".join(draws.choices("0123456789", k=draws.randint(0, 4 - len(decimals))))
        done.append(f"{whole}.{decimals}{more}" if point or more else whole)
    elif current:
        done.append(f"-{draws.uniform(0, 9):.4f}")
    open_ = [f"{draws.gauss(near[axis], 1.5):.4f}" for axis in range(len(done), 3)]
    return tuple(map(float, [*done, *open_]))


@pytest.mark.parametrize("model", ["demo-qwen", "demo-llama"])
def test_a_distance_that_is_named_is_kept_by_every_place_that_the_struck_tokens_leave(model: str) -> None:
    loaded, draws = load_model(load_registry().find(model), "cpu"), random.Random(3)
    plan = Plan("shaped", generations=2, sampling=preset("qwen3"))
    generation, told, tried = Generation(loaded, list(map(parse_smiles, SMILES)), plan), 0, 0
    for sample in generation.run():
        molecule = generation.molecule_of(sample.sample_id)
        aligned = generation.reader.aligned(molecule, sample.token_ids[:-1], sample.forced[:-1], {})
        assert sample.guarding is not None and sample.guarding.shapings is not None
        struck = {pos: shaping.struck for pos, shaping in sample.guarding.shapings.items() if shaping.struck}
        words = struck_words(struck, aligned, molecule, loaded.tokenizer, generation.form)
        assert words.keys() == struck.keys()
        starts = {row.pos: row.start for row in aligned.rows}
        for pos, of_pos in words.items():
            told += 1
            named = re.search(r"atom (\d+).* (at least|at most) ([\d.]+) Å away", of_pos)
            if named is None:
                continue
            tried += 1
            written = aligned.text[: starts[pos]]
            before = [np.array(block.content.split(","), dtype=float) for block in find_blocks(written) if block.closed]
            other, is_least, bound = before[int(named[1])], named[2] == "at least", float(named[3])
            for _ in range(COMPLETIONS):
                piece = loaded.tokenizer.piece(draws.choice(struck[pos]))
                content = find_blocks(written + piece)[len(before)].content
                distance = np.linalg.norm(np.array(completed(content, other, draws)) - other)
                assert distance >= bound - 0.006 if is_least else distance <= bound + 0.006, (of_pos, content)
    assert tried > 5 and tried > told / 8


BOND = "[CONFORMER][C]<0.0,0.0,0.0>[O]<"


def test_the_reason_is_the_bond_that_no_place_can_have() -> None:
    far = reason("CO", BOND, ("2", "3"), THREE, TRIMMED4)
    assert re.fullmatch(
        r"atom 0, to which it is bonded, is then at least 2\.00 Å away, at most 1\.\d\d is allowed", far
    )
    assert reason("CO", BOND, ("2",), ONE_BY_ONE, TRIMMED4) == far, "20 to 30 too"
    assert "at least 2.24 Å away" in reason("CO", f"{BOND}-1.0,", ("2",), THREE, TRIMMED4)
    near = reason("CO", f"{BOND}0.1,0.1,0.1", (">",), THREE, TRIMMED4)
    assert near.startswith("atom 0, to which it is bonded, is then at most 0.17 Å away, at least ")


def test_of_what_leaves_a_place_or_is_not_asked_no_reason_is_named() -> None:
    assert reason("CO", BOND, ("1",), ONE_BY_ONE, TRIMMED4) == NO_PLACE
    assert reason("CO", BOND, ("1", "2"), THREE, TRIMMED4) == NO_PLACE, "one of them leaves one"
    assert reason("[H]OC", "[CONFORMER][H]<", ("2",), THREE, TRIMMED4) == NO_PLACE
    assert reason("CO", "[CONFORMER]", ("x",), THREE, TRIMMED4) == NO_PLACE
    for damaged in (
        "[C]<0.0,0.0>[O]<",
        "[C]<0.0,x,0.0>[O]<",
        "[C]<0.0,0.0,0.0>[O]<0.0,0.0,0.0,",
        "[C]<0.0,0.0,0.0>[O]<,",
    ):
        assert reason("CO", f"[CONFORMER]{damaged}", ("2",), THREE, TRIMMED4) == NO_PLACE
