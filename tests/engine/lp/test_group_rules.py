"""The group's LPs, step by step: each version's rules in plain Python over the tokenizer's keys."""

import re

import numpy as np
import pytest
import torch

from engine.chem.enriched import decode, described, skeleton_of
from engine.chem.smiles import parse_smiles, same_graph
from engine.errors import ConstraintError
from engine.lp.constraint import build_constraint
from engine.lp.driver import State, Tables
from engine.lp.table import NO_ID
from engine.text.tokenizers import load_tokenizer

PADDED = 151_936
HARD = """
[Na+].[Cl-] C[N+](C)(C)C [O-][N+](=O)c1ccccc1 CC(=O)[O-].[K+] [NH3+]CC(=O)[O-] C[S+](C)[O-] [O-]S(=O)(=O)C C[n+]1ccccc1
N[C@@H](C)C(=O)O C[C@H](O)[C@@H](N)C(=O)O F/C=C/Cl F/C=C\\Cl O[C@]12CCCC[C@H]1CCC2 C[P@](=O)(O)c1ccccc1 [C@@H](F)(Cl)Br
c1cc[nH]c1 c1ccc2[nH]ccc2c1 c1c[nH]cn1 O=c1cc[nH]cc1 Cc1c[nH]c(=O)[nH]c1=O c1nc2[nH]cnc2c(=O)[nH]1
[13CH4] [2H]OC [13CH3]C(=O)[18OH] C[15NH2] [3H]C C1CC2CC3CC4CC5CC6CC7CC8CC9CC1C2C3C4C5C6C7C8C9
C1CCC2(CC1)CCC1(CC2)CCCCC1 c1ccc2c(c1)ccc1c2ccc2c1cccc2 CC.CO.N PCP SCCS [CH2]C C[CH]C
""".split()
# Characters that block a token, whether only tokens of numbers may come, whether bad pairs are blocked, how far from
# the end lone marks are, whether .,  and ,. are with them, whether a block may begin with a comma, the placeholder.
VERSIONS = {
    "v2.1": ("<>", False, False, 1, False, True, "0.0000,0.0000,0.0000"),
    "v3.4": ("", True, True, 4, True, True, "0.0000,0.0000,0.0000"),
    "v3.8": ("<>()[]", False, True, 4, True, True, "0.0000,0.0000,0.0000"),
    "v3.9": ("<>", False, True, 2, True, True, "0.000,0.000,0.000"),
    "v4.0": ("<>[]@+", False, True, 2, True, True, "0.000,0.000,0.000"),
    "v4.3": ("", True, True, 2, True, False, "0.000,0.000,0.000"),
}


def skeleton(smiles: str, placeholder: str) -> str:
    """A bare heteroatom with its hydrogens; bare carbons, and bracketed ones with hydrogens alone, as [C] and [c]."""
    hydrogens = iter([atom.GetTotalNumHs() for atom in parse_smiles(smiles).mol.GetAtoms()])
    text = "[CONFORMER]"
    for atom, link in re.findall(r"(\[[^\]]*\]|Br|Cl|[BCNOPSFIbcnops])|(.)", smiles):
        if not atom:
            text += link
            continue
        count = next(hydrogens)
        if re.fullmatch(r"\[[Cc]H\d?\]", atom):
            atom = f"[{atom[1]}]"
        elif not atom.startswith("["):
            suffix = "" if count == 0 or atom in ("C", "c") else "H" if count == 1 else f"H{count}"
            atom = f"[{atom}{suffix}]"
        text += f"{atom}<{placeholder}>"
    return text + "[/CONFORMER]"


def template(text: str, backend) -> list[tuple[int, bool]]:
    """Each token's id, and whether it lies wholly between < and >."""
    encoding = backend.encode(text, add_special_tokens=False)
    inside = np.zeros(len(text), dtype=bool)
    for block in re.finditer(r"(?<=\])<[^<>\[\]]*>", text):
        inside[block.start() + 1 : block.end() - 1] = True
    return [(id_, bool(inside[slice(*span)].all())) for id_, span in zip(encoding.ids, encoding.offsets, strict=True)]


def legal(keys: dict[int, str], version: str, *, first: bool, distance: int) -> frozenset[int]:
    """``distance`` positions before the next COPY token, which holds a > behind a FREE one."""
    blocked, numbers_only, no_pairs, ahead, points, comma_first, _ = VERSIONS[version]
    ids = set()
    for id_, key in keys.items():
        is_number = bool(key) and set(key) <= set("0123456789.,-")
        has_pair = is_number and any(pair in key for pair in ("..", ",,", "--", ".,", ",.", ".-", "-,"))
        is_lone = bool(key) and set(key) <= set(",-")
        is_barred = (
            key in ("[SMILES]", "[/SMILES]", "[CONFORMER]", "[/CONFORMER]")
            or set(key) & set(blocked)
            or (numbers_only and not is_number)
            or (no_pairs and has_pair)
            or (distance <= ahead and (is_lone or (points and key in (".,", ",."))))
            or (first and not comma_first and set(key) == {","})
        )
        ids |= set() if is_barred else {id_}
    return frozenset(ids)


@pytest.mark.parametrize(("name", "version"), [*(("qwen3", version) for version in VERSIONS), ("llama3", "v4.3")])
def test_forced_and_legal_sets_are_the_groups_at_every_step(version, name):
    tokenizer = load_tokenizer(name)
    backend = tokenizer.backend
    keys = {id_: key for key, id_ in backend.get_vocab(with_added_tokens=True).items()}
    placeholder = VERSIONS[version][-1]
    constraint = build_constraint(f"group-{version}", tokenizer, PADDED)
    end = tokenizer.end_id
    expected: dict[tuple[bool, int], frozenset[int]] = {}
    equal: dict[tuple[tuple[int, int], tuple[bool, int]], bool] = {}
    for smiles in HARD[:: 1 if (name, version) == ("qwen3", "v2.1") else 3]:
        molecule = parse_smiles(smiles)
        program = constraint.compile(described(molecule, "with-hydrogens"))
        tokens = [*template(skeleton(molecule.smiles, placeholder), backend), (end, False)]
        assert len(program) == len(tokens)
        tables = Tables.of(constraint.automaton, [program])
        for cell, (id_, is_free) in enumerate(tokens):
            assert (program.forced[cell] == NO_ID) == is_free
            if not is_free:
                assert program.forced[cell] == id_
                continue
            until = next(further for further in range(cell, len(tokens)) if not tokens[further][1]) - cell
            kind = (not tokens[cell - 1][1], min(until, 5))
            if kind not in expected:
                expected[kind] = legal(keys, version, first=kind[0], distance=kind[1])
            state = State(torch.tensor([cell]), torch.tensor([int(program.entry[cell])]))
            signature = (int(program.entry[cell]), int(program.symbols[cell].max()))
            if (signature, kind) not in equal:
                mask = frozenset(tables.mask(state)[0].nonzero().flatten().tolist())
                equal[signature, kind] = mask == expected[kind]
            assert equal[signature, kind], (smiles, cell)
    assert len(expected) > 3


@pytest.mark.parametrize("smiles", HARD)
def test_descriptors_with_hydrogens_are_the_same_molecule_or_exact_refuses_them(smiles):
    molecule = described(parse_smiles(smiles), "with-hydrogens")
    written = decode(skeleton_of(molecule, "0.5,0.5,0.5")).mol
    constraint = build_constraint("exact", load_tokenizer("qwen3"), PADDED)
    if re.search(r"\[[Cc]H\d?\]", molecule.smiles):
        assert not same_graph(written, molecule.mol)
        with pytest.raises(ConstraintError, match="another molecule"):
            constraint.compile(molecule)
    else:
        assert same_graph(written, molecule.mol)
        constraint.compile(molecule)
