"""The decoder that ships: from codes alone to molecules that are right, and each code has its part in every place."""

from __future__ import annotations

import numpy as np
import pytest

from engine.chem.bin_files import read_bin_file
from engine.chem.codes import checked_decoder
from engine.chem.enriched import as_decimals, decode
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import judge_answer
from engine.errors import EnrichedError
from engine.paths import DATA
from engine.records import CodeFormat
from tests.cli import run_json

FILE = DATA / "models" / "codes-256.json"
HELD_OUT = {
    "N[C@H](c1ccccc1)c1nnco1": "[N]<141>[C@H]<199>(<198>[c]<111>1<111>[c]<93>[c]<9>[c]<40>[c]<232>[c]<225>1<231>)<207>"
    "[c]<180>1<134>[n]<176>[n]<176>[c]<186>[o]<18>1<22>",
    "N[C@@H](c1ccccc1)c1nnco1": "[N]<34>[C@@H]<114>(<119>[c]<22>1<78>[c]<228>[c]<161>[c]<185>[c]<153>[c]<24>1<30>)<158>"
    "[c]<122>1<247>[n]<248>[n]<168>[c]<45>[o]<77>1<205>",
    "COC(=O)C[C@@H](C)C(N)=O": "[C]<57>[O]<161>[C]<151>(<42>=<198>[O]<28>)<156>[C]<230>[C@@H]<91>(<90>[C]<29>)<29>"
    "[C]<234>(<254>[N]<40>)<88>=<73>[O]<231>",
}
"""As the training's encoder wrote them; the first two are mirror images."""


@pytest.fixture(scope="module")
def form() -> CodeFormat:
    made = read_bin_file(FILE)
    assert isinstance(made, CodeFormat) and made.codes == 256
    return made


@pytest.mark.parametrize("smiles", HELD_OUT)
def test_molecules_that_it_has_not_seen_are_right(smiles: str, form: CodeFormat) -> None:
    text = as_decimals(HELD_OUT[smiles], form)
    assert decode(text).smiles == smiles
    verdict = judge_answer(text, parse_smiles(smiles).mol)
    assert verdict.geometry_right and verdict.stereo_right and verdict.stereo_sites == 1


def test_it_looks_both_ways(form: CodeFormat) -> None:
    """The last code moves the first atom, so that a text that is not whole has no place."""
    smiles, text = next(iter(HELD_OUT.items()))
    first, other = (np.array(decode(as_decimals(each, form)).coordinates) for each in (text, text[:-4] + "<201>"))
    assert np.abs(first[0] - other[0]).max() > 0.01 and decode(as_decimals(text, form)).smiles == smiles
    with pytest.raises(EnrichedError, match="219 tokens, and it takes 218 at most"):
        as_decimals("[C]<1>" * 219, form)
    with pytest.raises(EnrichedError, match="a code 256, and it has 256, from 0 on"):
        as_decimals("[C]<256>", CodeFormat(levels=(2,) * 9, decoder="demo-codes"))
    decoder = checked_decoder("demo-codes")
    assert np.asarray(decoder(["[Xe]", "?"], [0, 255])).shape == (2, 3)  # tokens that it was not shown


def test_the_terminal_decodes_and_judges(form: CodeFormat) -> None:
    smiles, text = list(HELD_OUT.items())[2]
    made = run_json("decode", text, "--bins", str(FILE))
    assert made["smiles"] == smiles and len(made["coordinates"]) == parse_smiles(smiles).atoms
    judged = run_json("judge", "--text", text, "--bins", str(FILE))
    assert judged["usable"] and judged["clean"] and judged["geometry_right"]
