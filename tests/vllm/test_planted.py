"""Silent failures planted in a real vLLM: status 200 and a text each time. The canary finds and names them.

Drawn at a temperature at which the model does not write molecules by itself, so that what is not constrained differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from engine.chem.enriched import described
from engine.chem.smiles import parse_written
from engine.decode.generation import Generation
from engine.decode.plan import Plan, preset
from engine.decode.server import ServerBackend
from engine.inspection.canary import Answer, Canary, Finding
from engine.inspection.constrained import of_generation
from engine.lp.constraint import build_constraint
from engine.lp.grammar import GrammarConstraint
from engine.models.loading import load_outline, served_as
from engine.models.registry import load_registry
from engine.models.shipped import VOCAB_ROWS
from engine.text.tokenizers import load_tokenizer
from tests.vllm.conftest import TIGHT, Server, lp_of
from tools.vllm_server import demo_folder, serving

TOKENIZER = load_tokenizer("qwen3")
EXACT = build_constraint("exact", TOKENIZER, VOCAB_ROWS["qwen3"])
SMILES = ("CC(N)O", "CC(=O)O", "c1ccoc1", "CCCl")
OTHER, LONG = "NC1CCC1C#N", "C(N)(O)C(=O)" * 24
"""Molecules of prompts beside the LP's own, which are what is written where it does not act; a prompt that is read in
parts, and of which few fit into the server."""
OPEN, CLOSE = r"\[CONFORMER\]", r"\[/CONFORMER\]"
HOT = {"temperature": 1.7, "max_tokens": 300}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("planted") / "server.log"
    plugin = "tests.vllm.planted:PlantedLp"
    with serving(demo_folder("demo-qwen"), log, *TIGHT, "--logits-processors", plugin) as url:
        yield Server(url, log)


def findings(smiles: Sequence[str], rows: Sequence[Sequence[int]], texts: Sequence[str | None] = ()) -> list[Finding]:
    canary = Canary(EXACT, TOKENIZER)
    molecules = [described(parse_written(text), "plain") for text in smiles]
    answers = [
        Answer(at, molecule, EXACT.compile(molecule), ids, texts[at] if texts else None, None)
        for at, (molecule, ids) in enumerate(zip(molecules, rows, strict=True))
    ]
    return canary.look_at_all(answers)


def asked(server: Server, name: str | None, smiles: Sequence[str] = SMILES, prompt: str = "") -> list[list[int]]:
    more = {} if name is None else {"planted": name}
    return server.all_ids([(prompt or text, lp_of("exact", text) | more, HOT) for text in smiles])


def test_nothing_planted_gives_no_alarm(planted: Server) -> None:
    assert findings(SMILES * 3, asked(planted, None, SMILES * 3)) == []


@pytest.mark.parametrize(
    ("name", "smiles", "prompt", "kinds", "words"),
    [
        ("dropped", SMILES, OTHER, {"free", "mixed"}, "the LP"),
        ("ignored", SMILES, OTHER, {"free", "mixed"}, "the LP"),
        ("buffer", SMILES, OTHER, {"free", "mixed"}, "the LP"),
        ("swapped", SMILES, "", {"swapped"}, "rows were swapped"),
        ("stale", SMILES * 6, LONG, {"late"}, "its state was lost in a preemption"),
        ("chunks", SMILES[:1], LONG, {"early"}, "chunked prefill"),
    ],
)
def test_a_fault_in_the_server_is_found_and_named(
    name: str, smiles: Sequence[str], prompt: str, kinds: set[str], words: str, planted: Server
) -> None:
    found = findings(smiles, asked(planted, name, smiles, prompt))
    assert [each for each in found if each.kind in kinds and words in each.cause], found


def test_a_prefix_that_is_cached_is_named_at_the_second_request_alone(planted: Server) -> None:
    prompt = "OC" + LONG
    assert findings(SMILES[:1], asked(planted, "prefix", SMILES[:1], prompt)) == []
    (found,) = findings(SMILES[:1], asked(planted, "prefix", SMILES[:1], prompt))
    assert found.kind == "late" and "a cached prefix" in found.cause


def test_a_grammar_without_tags_is_named(planted: Server) -> None:
    """The server's own structured outputs, with the regex of the molecule and without its tags."""
    smiles = SMILES[0]
    grammar = build_constraint("grammar", TOKENIZER, VOCAB_ROWS["qwen3"])
    assert isinstance(grammar, GrammarConstraint)
    pattern = grammar.pattern(described(parse_written(smiles), "plain"))
    for regex, kinds in ((pattern, []), (pattern.replace(OPEN, "").replace(CLOSE, ""), ["untagged"])):
        ids = planted.ids(smiles, {}, **HOT, structured_outputs={"regex": regex})
        assert [found.kind for found in findings([smiles], [ids])] == kinds


def test_beams_of_a_server_are_not_constrained_and_that_is_found(planted: Server) -> None:
    """Unplanted: vLLM's beam search takes no arguments along, and says 200."""
    more = {"use_beam_search": True, "n": 2, "temperature": 0.0, "max_tokens": 200}
    status, document = planted.complete(OTHER, lp_of("exact", "CC=O"), **more)
    assert status == 200
    for choice in document["choices"]:
        (found,) = findings(["CC=O"], [choice["token_ids"]])
        assert found.kind in ("free", "mixed")


def test_a_limit_inside_a_block_is_named(planted: Server) -> None:
    rows = [planted.ids(text, lp_of("exact", text), temperature=1.7, max_tokens=66) for text in SMILES[:2]]
    found = findings(SMILES[:2], rows)
    assert {each.kind for each in found} == {"cut"} and not any(each.is_fault for each in found)


@pytest.mark.parametrize("name", [None, "ignored"])
def test_a_probe_tells_a_server_with_the_plugin_from_one_that_ignores_it(
    name: str | None, planted: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is right both times: the model copies its prompt."""
    if name:
        plain = ServerBackend._arguments
        monkeypatch.setattr(ServerBackend, "_arguments", lambda self, one: plain(self, one) | {"planted": name})
    entry = next(entry for entry in load_registry().entries if entry.alias == "demo-qwen")
    loaded = served_as(load_outline(entry), planted.url)
    generation = Generation(loaded, [parse_written("CCO")], Plan(backend="server", sampling=preset("greedy")))
    (sample,) = generation.run()
    found = of_generation(generation)
    assert sample.check.clean and found is not None
    assert found.constrained == ("no" if name else "yes"), found
