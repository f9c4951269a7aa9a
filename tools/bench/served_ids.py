"""Whether a real vLLM with our plugin writes what plain ``generate`` writes: ``python -m tools.bench.served_ids``.

Greedy, under ``exact`` and the LPs by position: the ids of ``--backend server`` next to those of ``--backend hf``. They
may differ only where the two largest allowed logits of ``hf`` differ by less than 1e-4, which another order of sums
changes; what comes behind such a place is not compared. Then sampled answers under ``exact``: whole, the molecule's,
and cut as the tokenizer cuts them. Ends with 1 where a place is not explained or an answer is not right.

    --model ALIAS    demo-qwen, demo-llama; may be repeated (both)
    --lp NAME        may be repeated (exact, and all by position whose placeholder is not fitted)
    --molecules N    of data/heldout.smi (64)
    --sampled N      answers, four of each molecule (500); 0: none
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import torch

from engine.chem.smiles import parse_written
from engine.decode.generation import Generation
from engine.decode.plan import Plan, Sampling, preset
from engine.lp.driver import Tables
from engine.lp_records import LPS, lp_record
from engine.models.loading import LoadedModel, load_model, served_as
from engine.models.registry import load_registry
from engine.paths import ROOT
from engine.records import Molecule
from engine.text.generated import first_difference
from tools.bench._measure import note, show
from tools.vllm_server import PLUGIN, ROOMY, VLLM_PYTHON, demo_folder, serving

MODELS = ("demo-qwen", "demo-llama")
CLOSE = 1e-4
"""Between the two largest allowed logits: so near, another order of sums may choose the other."""
LIMIT, EACH, AT_ONCE = 900, 4, 32


@dataclass(slots=True)
class IdAgreement:
    """``unexplained``: molecules whose ids differ where no two logits are as good as equal."""

    answers: int = 0
    same: int = 0
    tokens: int = 0  # of hf's answers
    compared: int = 0
    close: int = 0
    unexplained: list[str] = field(default_factory=list)

    def add(self, generation: Generation, number: int, wanted: Sequence[int], found: Sequence[int]) -> None:
        """``generation`` is hf's, which wrote ``wanted`` for its request of this number."""
        self.answers += 1
        self.tokens += len(wanted)
        differs = first_difference(wanted, found)
        if differs is None:
            self.same += 1
            self.compared += len(wanted)
            return
        self.compared += differs
        if differs < min(len(wanted), len(found)) and gap(generation, number, wanted[:differs]) < CLOSE:
            self.close += 1
        else:
            self.unexplained.append(generation.molecules[number].smiles)


def gap(generation: Generation, number: int, written: Sequence[int]) -> float:
    """How far the two largest allowed logits are apart behind these ids."""
    request = generation.requests[number]
    tables = Tables.of(generation.constraint.automaton, [request.program])
    state = tables.start()
    for id_ in written:
        state = tables.step(state, torch.tensor([id_]))
    with torch.inference_mode():
        logits = generation.loaded.model(torch.tensor([[*request.prompt, *written]])).logits[:, -1].float()
    best = logits.masked_fill(~tables.mask(state), -torch.inf).topk(2, dim=1).values[0]
    return float(best[0] - best[1])


def greedy_by_hf(loaded: LoadedModel, molecules: Sequence[Molecule], lp: str) -> Generation:
    plan = Plan(lp, backend="hf", sampling=preset("greedy"), limit=LIMIT, batch_size=AT_ONCE)
    generation = Generation(loaded, molecules, plan)
    generation.run()
    return generation


def agreement(loaded: LoadedModel, served: LoadedModel, molecules: Sequence[Molecule], lp: str) -> IdAgreement:
    by_hf = greedy_by_hf(loaded, molecules, lp)
    plan = Plan(lp, backend="server", sampling=preset("greedy"), limit=LIMIT, batch_size=AT_ONCE)
    by_server = Generation(served, molecules, plan)
    by_server.run()
    agreed = IdAgreement()
    for number, (wanted, found) in enumerate(zip(by_hf.in_order(), by_server.in_order(), strict=True)):
        agreed.add(by_hf, number, wanted.token_ids, found.token_ids)
    return agreed


def right_texts(served: LoadedModel, molecules: Sequence[Molecule], count: int) -> int:
    """Of so many sampled answers under ``exact``."""
    asked = list(itertools.islice(itertools.cycle(molecules), -(-count // EACH)))
    plan = Plan("exact", backend="server", sampling=Sampling(1.0), generations=EACH, batch_size=AT_ONCE)
    samples = Generation(served, asked, plan).run()[:count]
    assert len(samples) == count
    return sum(
        bool(sample.stop_reason == "end" and sample.check.clean and sample.check.same_graph and sample.canonical)
        for sample in samples
    )


def by_position() -> list[str]:
    """LPs with a placeholder of their own, which is not fitted to coordinates."""
    records = [lp_record(name) for name in LPS]
    return [record.name for record in records if record.placeholder and not record.needs_coordinates]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append")
    parser.add_argument("--lp", action="append")
    parser.add_argument("--molecules", type=int, default=64)
    parser.add_argument("--sampled", type=int, default=500)
    chosen = parser.parse_args()
    if not VLLM_PYTHON.exists():
        note("`make vllm` makes the environment that this needs")
        return 0
    lines = (ROOT / "data/heldout.smi").read_text(encoding="utf-8").splitlines()
    heldout = [parse_written(line.split()[0]) for line in lines]
    rows, texts, is_right = [], [], True
    for alias in cast(Sequence[str], chosen.model or MODELS):
        loaded = load_model(load_registry().find(alias), "cpu")
        with (
            tempfile.TemporaryDirectory() as folder,
            serving(demo_folder(alias), Path(folder) / "log", *ROOMY, "--logits-processors", PLUGIN) as url,
        ):
            served = served_as(loaded, url)
            for lp in chosen.lp or ["exact", *by_position()]:
                agreed = agreement(loaded, served, heldout[: chosen.molecules], lp)
                is_right &= not agreed.unexplained
                cells = (agreed.same, agreed.compared, agreed.tokens, agreed.close, len(agreed.unexplained))
                rows.append([alias, lp, f"{agreed.answers}", *(f"{cell:,}" for cell in cells)])
                note(" | ".join([*rows[-1], *agreed.unexplained]))
            if chosen.sampled:
                right = right_texts(served, heldout, chosen.sampled)
                is_right &= right == chosen.sampled
                texts.append([alias, f"{right:,}", f"{chosen.sampled:,}"])
                note(" | ".join(texts[-1]))
    head = "model|LP|answers|same|tokens compared|of|differ at two equal logits|differ elsewhere"
    show("Greedy ids of vLLM with our plugin, next to plain generate", head, rows)
    show("Sampled under exact: whole, the molecule's, and cut as the tokenizer cuts", "model|right|of", texts)
    return 0 if is_right else 1


if __name__ == "__main__":
    raise SystemExit(main())
