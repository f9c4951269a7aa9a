"""What a request to a server says of its LP: out and back, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from engine.errors import ConstraintError
from engine.lp.constraint import LpParameters
from engine.lp.served import ServedLp
from engine.records import GROUP_UNIFORM, SHORTEST4

REQUESTS = (
    ServedLp("exact", "CCO"),
    ServedLp("group-v4.3", "CCO", "plain", LpParameters("0.00,0.00,0.00")),
    ServedLp("exact", "[NH4+]", None, LpParameters(form=GROUP_UNIFORM, conformers=3, conformers_before=1)),
    ServedLp("none", "c1ccccc1", "with-hydrogens", LpParameters(form=SHORTEST4, never_end=True)),
)


@pytest.mark.parametrize("request_", REQUESTS)
def test_what_goes_out_comes_back(request_: ServedLp) -> None:
    arguments = request_.arguments()
    assert ServedLp.of(arguments) == request_
    assert all(type(value) in (str, int) for value in arguments.values())


def test_the_usual_is_not_said() -> None:
    assert ServedLp("exact", "CCO").arguments() == {"driftscope_lp": "exact", "driftscope_smiles": "CCO"}


@pytest.mark.parametrize("arguments", [None, {}, {"other": 1, "lp": "exact"}])
def test_a_request_without_our_keys_is_left_alone(arguments: Mapping[str, object] | None) -> None:
    assert ServedLp.of(arguments) is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"driftscope_lp": "exakt"}, "no LP 'exakt'"),
        ({"driftscope_lp": 3}, "driftscope_lp is a text"),
        ({"driftscope_smiles": ""}, "names both"),
        ({"driftscope_smile": "CCO"}, "no argument 'driftscope_smile'"),
        ({"driftscope_lp": "guarded"}, "takes tokens back"),
        ({"driftscope_lp": "adaptive-placeholder"}, "fitted to coordinates"),
        ({"driftscope_lp": "shaped", "driftscope_conformers": 2}, "one conformer per answer"),
        ({"driftscope_conformers": 1.5}, "whole number"),
        ({"driftscope_conformers": -1}, "whole number"),
        ({"driftscope_form": "{"}, "no form of numbers"),
        ({"driftscope_form": '{"edges": "a"}'}, "no form of numbers"),
        ({"driftscope_form": "[1]"}, "no form of numbers"),
        ({"driftscope_descriptors": "odd"}, "no descriptors 'odd'"),
        ({"driftscope_placeholder": "0.00,0.00,0.00"}, "has no placeholder"),
    ],
)
def test_what_cannot_be_met_is_one_line(more: Mapping[str, object], said: str) -> None:
    with pytest.raises(ConstraintError, match=said):
        ServedLp.of({"driftscope_lp": "exact", "driftscope_smiles": "CCO", **more})
