"""How many texts of an embedded model are another molecule, or none, with and without an LP, and however hot.

    python -m tools.bench.whole_texts                  demo-bins, 1,000 texts each: some minutes
    python -m tools.bench.whole_texts --texts 10000    the figures of docs/benchmarks.md: half an hour

Held-out molecules, batches of 32, temperatures 1.0 and 1.5, no top-k or top-p. *Mismatch*: the text reads as another
molecule. *No molecule*: it does not read as one. *Not clean*: also what is wrong with its numbers. *Cut otherwise*:
Hugging Face's form of the tokenizer, added tokens among them, cuts the text into other ids than were sampled.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan, Sampling
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import Molecule
from tools.bench._measure import machine, note, show

MOLECULES, AT_ONCE = 2_500, 250
TEMPERATURES, LPS = (1.0, 1.5), ("none", "exact")


def row_of(loaded: LoadedModel, molecules: Sequence[Molecule], lp: str, temperature: float, texts: int) -> list[str]:
    backend, counts = loaded.tokenizer.backend, [0, 0, 0, 0]
    plan = Plan(lp, sampling=Sampling(temperature), generations=-(-texts // len(molecules)))
    for start in range(0, len(molecules), AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, len(molecules)))
        samples = Generation(loaded, [molecules[number] for number in numbers], plan, numbers).run()
        for sample in samples:
            ids = list(sample.token_ids[:-1] if sample.stop_reason == "end" else sample.token_ids)
            check = sample.check
            wrong = (check.parsed and not check.same_graph, not check.parsed, not check.clean)
            is_other = backend.encode(sample.text, add_special_tokens=False).ids != ids
            counts = [count + flag for count, flag in zip(counts, (*wrong, is_other), strict=True)]
        note(f"{lp}, temperature {temperature}: {numbers.stop} of {len(molecules)} molecules, {counts}")
    return [f"{temperature}", lp, f"{len(molecules) * plan.generations:,}", *map("{:,}".format, counts)]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="How many texts are another molecule, or none.")
    parser.add_argument("--model", default="demo-bins", help="ALIAS or ALIAS:STEP (%(default)s)")
    parser.add_argument("--texts", type=int, default=1_000, help="of each row, at least (%(default)s)")
    parser.add_argument("--lp", action="append", choices=LPS, help="this one; may be repeated")
    parser.add_argument("--temperature", action="append", type=float, help="likewise (1.0 and 1.5)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f"{machine('torch', 'rdkit')}\n", flush=True)
    loaded = load_model(load_registry().find(args.model), "cpu")
    molecules = list(map(parse_smiles, load_run_set(min(MOLECULES, args.texts))))
    rows = [
        row_of(loaded, molecules, lp, temperature, args.texts)
        for temperature in args.temperature or TEMPERATURES
        for lp in args.lp or LPS
    ]
    head = "temperature|LP|texts|mismatch|no molecule|not clean|cut otherwise"
    show(f"Texts of {loaded.entry.name}", head, rows)


if __name__ == "__main__":
    main()
