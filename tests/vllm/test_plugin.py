"""The plugin in a real vLLM by real HTTP: the ids of plain ``generate``, texts that are the molecules, what is refused.

The server has room for few blocks and reads prompts in parts, so rows are thrown out, taken up again and moved. No
request has a seed: on a CPU vLLM 0.32.0 ends at one whose prompt is read in parts (docs/serving.md).
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest

from engine.chem.enriched import described
from engine.chem.smiles import parse_written
from engine.chem.verdict import judge_answer
from engine.decode.generation import Generation
from engine.decode.plan import Plan, preset
from engine.models.loading import LoadedModel, load_model, served_as
from engine.models.registry import load_registry
from engine.text.check import check_sample
from tests.support import ROOT
from tests.vllm.conftest import Server, lp_of
from tools.bench.served_ids import IdAgreement, greedy_by_hf

HELD_OUT = [line.split()[0] for line in (ROOT / "data/heldout.smi").read_text().splitlines()]
MOLECULES = [*sorted(HELD_OUT[:64], key=len)[:5], HELD_OUT[0]]
SAMPLED = 16


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model(next(entry for entry in load_registry().entries if entry.alias == "demo-qwen"), "cpu")


@pytest.mark.parametrize("lp", ["exact", "group-v2.1", "group-v4.3", "truncating"])
def test_greedy_ids_are_those_of_generate(lp: str, server: Server, loaded: LoadedModel) -> None:
    """Up to the first place where two logits are as good as equal."""
    generation = greedy_by_hf(loaded, list(map(parse_written, MOLECULES)), lp)
    found = server.all_ids([(smiles, lp_of(lp, smiles), {}) for smiles in MOLECULES])
    agreed = IdAgreement()
    for number, (wanted, ids) in enumerate(zip(generation.in_order(), found, strict=True)):
        agreed.add(generation, number, wanted.token_ids, ids)
    assert not agreed.unexplained
    assert agreed.compared > 0.9 * agreed.tokens


def test_every_sampled_text_of_exact_is_the_molecule(server: Server, loaded: LoadedModel) -> None:
    """Parsed, of the right graph, and cut into the very ids by the tokenizer."""
    asked = [MOLECULES[number % len(MOLECULES)] for number in range(SAMPLED)]
    found = server.all_ids([(smiles, lp_of("exact", smiles), {"temperature": 1.3}) for smiles in asked])
    assert len({tuple(ids) for ids in found}) > len(MOLECULES)
    for smiles, ids in zip(asked, found, strict=True):
        assert ids[-1] == loaded.tokenizer.end_id
        text = loaded.tokenizer.decode(ids[:-1])
        check = check_sample(text, described(parse_written(smiles), "plain"), lp="exact")
        assert check.clean and check.same_graph, (smiles, text, check.issues)
        assert list(loaded.tokenizer.encode(text)) == ids[:-1]


def test_probabilities_that_a_server_tells_are_the_models(server: Server, loaded: LoadedModel) -> None:
    """Before the LP, as read here once more; those of forced tokens too, by which a masked telling is found out."""
    plan = Plan("exact", backend="server", sampling=preset("greedy"), limit=900, diagnostics=True, candidates=5)
    generation = Generation(served_as(loaded, server.url), [parse_written(smiles) for smiles in MOLECULES[:3]], plan)
    samples = generation.run()
    told = [diagnosis for sample in samples for diagnosis in sample.diagnoses]
    here = [diagnosis for each in generation.diagnosed(samples) for diagnosis in each]
    assert len(told) == len(here) == sum(sample.tokens for sample in samples)
    assert [each.p_raw for each in told] == pytest.approx([each.p_raw for each in here], rel=1e-3, abs=1e-6)
    ranks = [(one.rank_raw, other.rank_raw) for one, other in zip(told, here, strict=True) if one.rank_raw]
    assert sum(one == other for one, other in ranks) > 0.99 * len(ranks) > 0.5 * len(told)
    assert all(len(each.top_k) >= 5 and each.rule == other.rule for each, other in zip(told, here, strict=True))


def test_shaped_writes_molecules_that_are_right(server: Server, loaded: LoadedModel) -> None:
    """Half of those of ``exact`` are wrong; the judge is the verdict."""
    smiles = [text for text in MOLECULES if "@" in text][:4] or MOLECULES[:4]
    more = {"temperature": 0.7, "top_k": 20, "top_p": 0.8}
    asked = [(text, lp_of("shaped", text), more) for text in smiles * 2]
    right = 0
    for (text, _, _), ids in zip(asked, server.all_ids(asked), strict=True):
        verdict = judge_answer(loaded.tokenizer.decode(ids[:-1]), parse_written(text).mol)
        right += verdict.is_right
    assert right >= len(asked) - 1


REFUSED: tuple[tuple[Mapping[str, Any], Mapping[str, Any], str], ...] = (
    ({"driftscope_lp": "exakt"}, {}, "no LP 'exakt'"),
    ({"driftscope_lp": "guarded"}, {}, "takes tokens back"),
    ({"driftscope_smiles": "C1CC"}, {}, "unclosed ring"),
    ({"driftscope_smiles": ""}, {}, "names both"),
    ({"driftscope_placeholder": "0.0"}, {}, "no placeholder"),
    ({"driftscope_odd": 1}, {}, "no argument 'driftscope_odd'"),
    ({}, {"max_tokens": 40}, "max_tokens is 40, and an answer for 'CCO' has 45 or more"),
    ({}, {"ignore_eos": True}, "ignore_eos cannot be met"),
    ({}, {"min_tokens": 3}, "min_tokens cannot be met"),
    ({}, {"logit_bias": {"5": 1.0}}, "logit_bias cannot be met"),
    ({}, {"bad_words": ["amen"]}, "bad_words cannot be met"),
    ({}, {"allowed_token_ids": [5]}, "allowed_token_ids cannot be met"),
    ({}, {"structured_outputs": {"regex": "a+"}}, "structured_outputs cannot be met"),
)


@pytest.mark.parametrize(("arguments", "more", "said"), REFUSED)
def test_what_cannot_be_met_is_refused_when_it_is_asked_for(
    arguments: Mapping[str, Any], more: Mapping[str, Any], said: str, server: Server
) -> None:
    status, document = server.complete("CCO", {**lp_of("exact", "CCO"), **arguments}, **more)
    assert status == 400 and said in document["error"]["message"]


def test_the_molecule_is_that_of_the_arguments_and_not_of_the_prompt(server: Server, loaded: LoadedModel) -> None:
    ids = server.ids("CCO", lp_of("exact", "CC=O"))
    assert check_sample(loaded.tokenizer.decode(ids[:-1]), described(parse_written("CC=O"), "plain"), lp="exact").clean


def test_requests_beside_each_other_keep_their_own(server: Server, loaded: LoadedModel) -> None:
    """LPs of all kinds and requests without one in the same batches: each as it is alone."""
    kinds = [lp_of("exact", text) for text in MOLECULES[:4]] + [lp_of("group-v4.3", text) for text in MOLECULES[:4]]
    kinds += [{}] * 4 + [lp_of("none", text) for text in MOLECULES[:2]]
    asked = [(MOLECULES[at % 4], arguments, {"max_tokens": 400}) for at, arguments in enumerate(kinds)]
    together = server.all_ids(asked)
    alone = [server.ids(smiles, arguments, **more) for smiles, arguments, more in asked[:10:3]]
    same = [ids == other for ids, other in zip(alone, together[:10:3], strict=True)]
    assert sum(same) >= len(same) - 1  # another batch is another order of sums
    assert together[12] == together[8]  # ``none`` allows all that the model has


def test_a_request_that_is_left_alone_may_say_what_ours_may_not(server: Server) -> None:
    assert len(server.ids("CCO", {}, max_tokens=7, ignore_eos=True, min_tokens=2)) == 7


def test_rows_were_thrown_out_and_nothing_went_wrong(server: Server) -> None:
    """Once all others have run: rows in trouble are warnings, and there was none that nobody asked for."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
        thrown_out = re.search(r"^vllm:num_preemptions_total\{[^}]*\} ([0-9.]+)", answer.read().decode(), re.MULTILINE)
    assert thrown_out is not None and float(thrown_out[1]) > 0
    log = server.log.read_text(errors="replace")
    assert "Traceback" not in log and "may only end" not in log
