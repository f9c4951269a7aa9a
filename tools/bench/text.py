"""How fast text is: templates, the codec, blocks and alignment, the tokenizers, and the start of a command.

``python -m tools.bench.text`` prints medians of several repeats on one core, with the spread next to them. Ratios are
between medians that were taken in turn, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

os.environ["RAYON_NUM_THREADS"] = "1"  # the tokenizers' own threads, before they start

import tiktoken

from engine.chem.enriched import decode, enriched_text, skeleton_of
from engine.chem.enriched import encode as encode_molecule
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.paths import ROOT
from engine.records import TRIMMED4, Molecule
from engine.text import tokenizer_build
from engine.text.align import align
from engine.text.blocks import find_blocks, read_block
from engine.text.check import check_sample
from engine.text.template import build_template, build_templates, drift_summary
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tools.bench._measure import in_turn, over, pin, show, spread

NAMES = ("qwen3", "llama3")
HEAVY_ATOMS = 30
Works = dict[str, Callable[[], object]]


def written(molecule: Molecule, seed: int) -> str:
    rng = random.Random(seed)
    numbers = tuple(tuple(f"{rng.uniform(-9, 9):.4f}" for _ in range(3)) for _ in range(molecule.atoms))
    return enriched_text(molecule.smiles, molecule.descriptors, numbers)  # type: ignore[arg-type]


def text_works(molecules: Sequence[Molecule], texts: Sequence[str]) -> Works:
    skeletons, smiles = [skeleton_of(molecule) for molecule in molecules], [molecule.smiles for molecule in molecules]
    mols, pairs = [decode(text).mol for text in texts], list(zip(texts, molecules, strict=True))
    clean = [block.content for block in find_blocks("".join(texts))]
    junk = [f"{content}amen" for content in clean]
    qwen = load_tokenizer("qwen3")
    works: Works = {
        "templates from SMILES, qwen3": lambda: build_templates(
            [skeleton_of(parse_smiles(text)) for text in smiles], qwen
        ),
        "encode": lambda: [encode_molecule(mol, TRIMMED4) for mol in mols],
        "decode": lambda: [decode(text) for text in texts],
        "check": lambda: [check_sample(text, molecule) for text, molecule in pairs],
        "find blocks": lambda: find_blocks("".join(texts)),
        "read clean blocks": lambda: [read_block(content) for content in clean],
        "read blocks with junk": lambda: [read_block(content) for content in junk],
    }
    large = written(parse_smiles("C" * 100), 1)
    for name in NAMES:
        tokenizer = load_tokenizer(name)
        works[f"templates, {name}"] = partial(build_templates, skeletons, tokenizer)
        works[f"drift, {name}"] = partial(drift_summary, texts, tokenizer, DEFAULT_PLACEHOLDER)
        for label, chosen in {"50 of 30 atoms": list(texts[:50]), "10 of 100 atoms": [large] * 10}.items():
            built = [build_template(text, tokenizer) for text in chosen]
            free = [(template, tokenizer.encode(text)) for template, text in zip(built, chosen, strict=True)]
            forced = [(template, template.ids.tolist()) for template in built]  # where the LP forces
            for lp, given in (("none", free), ("group-v2.1", forced)):
                works[f"align {label}, {lp}, {name}"] = partial(_align_all, given, tokenizer, lp)
    return works


def _align_all(pairs: Sequence[tuple[Any, Sequence[int]]], tokenizer: TextTokenizer, lp: str) -> None:
    for template, ids in pairs:
        align(template, ids, tokenizer, lp=lp)


def plain_tiktoken(name: str) -> tiktoken.Encoding:
    lines = tokenizer_build.rank_file(name).read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    tokenizer = load_tokenizer(name)
    added = {tokenizer.piece(id_): id_ for id_ in tokenizer.added}
    pattern = tokenizer_build.RECIPES[name].pattern
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=added)


def start_works() -> Works:
    commands = {
        "python -c pass": ["-c", "pass"],
        "--help": ["-m", "engine", "--help"],
        "junk": ["-m", "engine", "junk", "[C]<1.0,2.0,3.0>"],
        "tokens, qwen3": ["-m", "engine", "tokens", "<1.0,2.0,3.0>", "--tokenizer", "qwen3"],
        "tokens, llama3": ["-m", "engine", "tokens", "<1.0,2.0,3.0>", "--tokenizer", "llama3"],
        "template": ["-m", "engine", "template", "CC=O", "--tokenizer", "qwen3"],
        "decode": ["-m", "engine", "decode", "[C]<1.0,2.0,3.0>"],
        "drift of one line": ["-m", "engine", "drift", "--tokenizer", "qwen3", "--file", "-"],
    }
    options: dict[str, Any] = {"cwd": ROOT, "input": b"[C]<1.0,2.0,3.0>", "capture_output": True, "check": True}
    return {
        f"start: {name}": partial(subprocess.run, [sys.executable, *argv], **options) for name, argv in commands.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast text is.")
    parser.add_argument("--molecules", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    pin(1)
    every = [parse_smiles(entry.smiles) for entry in load_molecule_set()]
    nearest = sorted(every, key=lambda mol: abs(mol.heavy_atoms - HEAVY_ATOMS))[: max(1, args.molecules // 10)] * 10
    sizes = [molecule.heavy_atoms for molecule in nearest]
    texts = [written(molecule, seed) for seed, molecule in enumerate(nearest)]
    print(
        f"{len(nearest):,} molecules of {min(sizes)} to {max(sizes)} heavy atoms; {args.repeats} repeats on one core\n"
    )
    rows: list[tuple[str, ...]] = []
    seconds = in_turn(text_works(nearest, texts) | start_works(), args.repeats)
    for name in NAMES:
        tokenizer = load_tokenizer(name)
        hugging_face = TextTokenizer(name, tokenizer_build.built_in(name))
        one_thread: dict[str, Any] = {"num_threads": 1, "allowed_special": "all"}
        bare_tiktoken = plain_tiktoken(name)
        works: Works = {
            f"ids, {name}": partial(tokenizer.encode_batch, texts),
            f"ids, {name} in its Hugging Face form": partial(hugging_face.encode_batch, texts),
            f"ids, tiktoken with the ranks of {name}": partial(bare_tiktoken.encode_batch, texts, **one_thread),
        }
        timings = in_turn(works, args.repeats)
        seconds |= timings
        ours, theirs, bare = timings.values()
        rows.append((f"{name}: the Hugging Face form takes, of ours", *over(theirs, ours)))
        rows.append((f"{name}: ours takes, of tiktoken alone", *over(ours, bare)))
    milliseconds = [(name, *spread([1e3 * time_s for time_s in times])) for name, times in seconds.items()]
    show("Text, tokens and starts", "what|ms|least .. most", milliseconds)
    show("Ratios", "what|times|least .. most", rows)


if __name__ == "__main__":
    main()
