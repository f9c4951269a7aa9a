"""The plugin under vLLM's second runner, which is played: each row allows what the driver says of its ids alone."""

from __future__ import annotations

import json
import subprocess

import torch

from engine.chem.enriched import described, prompt_of
from engine.chem.smiles import parse_written
from engine.lp.constraint import Constraint, build_constraint, end_of
from engine.lp.driver import Tables
from engine.lp_records import lp_record
from engine.text.tokenizers import load_tokenizer
from tests.support import ROOT
from tests.vllm.conftest import lp_of
from tools.vllm_server import VLLM_PYTHON, demo_folder, environment

MOLECULES = ("CCO", "C[C@H](N)O", "CC=O", "c1ccoc1", "CO")
STEPS = 60


def test_each_row_allows_what_its_ids_say() -> None:
    tokenizer = load_tokenizer("qwen3")
    constraints = {lp: build_constraint(lp, tokenizer, 151_936) for lp in ("exact", "group-v4.3", "truncating")}
    arguments = [lp_of(lp, smiles) for smiles in MOLECULES for lp in constraints] + [{}, {}]
    requests = [
        {"arguments": one, "prompt": list(tokenizer.encode(prompt_of(one.get("driftscope_smiles", "CCO"))))}
        for one in arguments[::2] + arguments[1::2]
    ]
    asked = {"end": end_of(tokenizer), "requests": requests, "steps": STEPS}
    played = subprocess.run(
        [VLLM_PYTHON, str(ROOT / "tests/vllm/second_runner.py"), str(demo_folder("demo-qwen")), json.dumps(asked)],
        env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stderr[-3_000:]
    document = json.loads(played.stdout[played.stdout.index('{"taken"') :])
    begun = document["taken"]
    assert begun == [bool(request["arguments"]) for request in requests[: len(begun)]] and len(begun) > 6
    rows = [row for row in document["seen"] if row["arguments"] and not row["is_reading"]]
    left_alone = [row for row in document["seen"] if not row["arguments"]]
    assert left_alone and all(row["is_kept"] for row in left_alone)
    right = {0: 0, 1: 0, 2: 0}  # by how many tokens were proposed before
    wrong = dict(right)
    for row in rows:
        constraint = constraints[row["arguments"]["driftscope_lp"]]
        wanted = _allowed(constraint, row["arguments"]["driftscope_smiles"], row["written"])
        assert row["allowed"] == (wanted or [end_of(tokenizer)]), row
        (right if wanted else wrong)[row["proposed"]] += 1
    assert right[0] > 100 and right[1] > 30 and wrong[2] > 10
    assert wrong[0] == wrong[1] == 0  # drafts were good up to there
    assert any(row["is_reading"] and row["written"] for row in document["seen"])  # thrown out, and read anew


def _allowed(constraint: Constraint, smiles: str, written: list[int]) -> list[int]:
    style = lp_record(constraint.name).descriptors or "plain"
    tables = Tables.of(constraint.automaton, [constraint.compile(described(parse_written(smiles), style))])
    state = tables.start()
    for id_ in written:
        state = tables.step(state, torch.tensor([id_]))
    ids: list[int] = tables.mask(state)[0].nonzero().flatten().tolist()
    return ids if len(ids) < 2_000 else [-len(ids)]
