"""How fast text is: templates, the codec, blocks and alignment, the tokenizers, and the start of a command.

``python bench/text.py`` prints medians of several repeats on one core, with the spread beside them. Ratios are between
medians that were taken in turn, so that a busy machine slows both alike. Nothing here is a test: the machine decides.
"""

from __future__ import annotations

import base64
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.environ["RAYON_NUM_THREADS"] = "1"  # the tokenizers' own threads, before they start

import tiktoken  # noqa: E402

from engine.chem.enriched import decode, enriched_text, skeleton_of  # noqa: E402
from engine.chem.enriched import encode as encode_molecule  # noqa: E402
from engine.chem.molecule_sets import load_molecule_set  # noqa: E402
from engine.chem.smiles import parse_smiles  # noqa: E402
from engine.lp_records import DEFAULT_PLACEHOLDER  # noqa: E402
from engine.records import TRIMMED4, Molecule  # noqa: E402
from engine.text import tokenizer_build  # noqa: E402
from engine.text.align import align  # noqa: E402
from engine.text.blocks import find_blocks, read_block  # noqa: E402
from engine.text.check import check_sample  # noqa: E402
from engine.text.drift import drift_summary  # noqa: E402
from engine.text.template import build_template, build_templates  # noqa: E402
from engine.text.tokenizers import TextTokenizer, load_tokenizer  # noqa: E402

NAMES = ("qwen3", "llama3")
REPEATS = 5
MOLECULES = 1_000
HEAVY_ATOMS = 30


@dataclass(frozen=True)
class Timing:
    """One line of the table: seconds of each repeat, for ``items`` pieces of work each."""

    label: str
    seconds: tuple[float, ...]
    items: int
    unit: str

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    def line(self) -> str:
        per_second = self.items / self.median_s
        spread = f"{min(self.seconds) * 1e3:,.1f} .. {max(self.seconds) * 1e3:,.1f}"
        return f"{self.label:<52} {self.median_s * 1e3:>11,.1f}  {spread:>22}  {per_second:>12,.0f} {self.unit}/s"


def timed(*works: tuple[str, Callable[[], object]], items: int, unit: str, repeats: int = REPEATS) -> list[Timing]:
    """Time pieces of work in turn, after one round to warm up, and print them."""
    seconds: list[list[float]] = [[] for _ in works]
    for repeat in range(repeats + 1):
        for (_, work), taken in zip(works, seconds, strict=True):
            begin = time.perf_counter()
            work()
            if repeat:
                taken.append(time.perf_counter() - begin)
    timings = [Timing(label, tuple(taken), items, unit) for (label, _), taken in zip(works, seconds, strict=True)]
    for timing in timings:
        print(timing.line(), flush=True)
    return timings


def ratio(label: str, slow: Timing, fast: Timing) -> None:
    print(f"{label:<52} {slow.median_s / fast.median_s:>11,.2f}  times", flush=True)


def molecules() -> list[Molecule]:
    """1,000 molecules of 30 heavy atoms: those of ``data/`` that are nearest to that, ten times over."""
    every = [parse_smiles(entry.smiles) for entry in load_molecule_set()]
    nearest = sorted(every, key=lambda one: abs(one.heavy_atoms - HEAVY_ATOMS))[: MOLECULES // 10] * 10
    sizes = [one.heavy_atoms for one in nearest]
    print(f"{len(nearest):,} molecules of {min(sizes)} to {max(sizes)} heavy atoms, ", end="")
    print(f"{statistics.mean(sizes):.1f} on average; {REPEATS} repeats on one core\n")
    return nearest


def written(one: Molecule, seed: int) -> str:
    rng = random.Random(seed)
    numbers = tuple(tuple(f"{rng.uniform(-9, 9):.4f}" for _ in range(3)) for _ in range(one.atoms))
    return enriched_text(one.smiles, one.descriptors, numbers)  # type: ignore[arg-type]


def bench_templates(set_of: Sequence[Molecule], texts: Sequence[str]) -> None:
    skeletons = [skeleton_of(one) for one in set_of]
    smiles = [one.smiles for one in set_of]
    for name in NAMES:
        work = partial(build_templates, skeletons, load_tokenizer(name))
        timed((f"templates, {name}", work), items=len(set_of), unit="molecules")

    def from_smiles() -> None:
        build_templates([skeleton_of(parse_smiles(one)) for one in smiles], load_tokenizer("qwen3"))

    timed(("templates from SMILES, qwen3", from_smiles), items=len(set_of), unit="molecules")
    blocks = sum(one.atoms for one in set_of)
    for name in NAMES:
        summary = partial(drift_summary, texts, load_tokenizer(name), DEFAULT_PLACEHOLDER)
        timed((f"drift, {name}", summary), items=blocks, unit="blocks")


def bench_codec(set_of: Sequence[Molecule], texts: Sequence[str]) -> None:
    mols = [decode(text).mol for text in texts]
    timed(("encode", lambda: [encode_molecule(mol, TRIMMED4) for mol in mols]), items=len(mols), unit="molecules")
    timed(("decode", lambda: [decode(text) for text in texts]), items=len(texts), unit="molecules")
    pairs = list(zip(texts, set_of, strict=True))
    timed(("check", lambda: [check_sample(text, one) for text, one in pairs]), items=len(pairs), unit="samples")


def bench_blocks(texts: Sequence[str]) -> None:
    whole = "".join(texts)
    clean = [block.content for block in find_blocks(whole)]
    junk = [f"{content}amen" for content in clean]
    timed(("find blocks", lambda: find_blocks(whole)), items=len(clean), unit="blocks")
    timed(("read clean blocks", lambda: [read_block(content) for content in clean]), items=len(clean), unit="blocks")
    timed(("read blocks with junk", lambda: [read_block(content) for content in junk]), items=len(junk), unit="blocks")


def bench_alignment(texts: Sequence[str]) -> None:
    large = written(parse_smiles("C" * 100), 1)
    cases = {"30 atoms": list(texts[:50]), "100 atoms": [large] * 10}
    for name in NAMES:
        tokenizer = load_tokenizer(name)
        for label, chosen in cases.items():
            for lp in ("none", "group-v2.1"):
                work = _alignment(tokenizer, chosen, lp)
                timed((f"align {label}, {lp}, {name}", work), items=len(chosen), unit="samples")
    tokenizer = load_tokenizer("qwen3")
    damaged = large.replace("[C]<1", "[N]<1").replace("[C]<-3", "[O]<-3.0amen>[C]<-3")
    template, ids = build_template(large, tokenizer), tokenizer.encode(damaged)
    timed(("align 100 atoms, damaged, qwen3", lambda: align(template, ids, tokenizer)), items=1, unit="samples")
    digits = tokenizer.encode("0.1" * 2_000)
    timed(
        ("align 6,000 digits with 100 atoms, qwen3", lambda: align(template, digits, tokenizer)),
        items=1,
        unit="samples",
    )


def _alignment(tokenizer: TextTokenizer, texts: Sequence[str], lp: str) -> Callable[[], object]:
    pairs = [(build_template(text, tokenizer), tokenizer.encode(text)) for text in texts]
    if lp != "none":  # as many tokens as the template has, forced where it forces
        pairs = [(template, template.ids.tolist()) for template, _ in pairs]
    return lambda: [align(template, ids, tokenizer, lp=lp) for template, ids in pairs]


def bench_tokenizers(texts: Sequence[str]) -> None:
    for name in NAMES:
        tokenizer = load_tokenizer(name)
        hugging_face = TextTokenizer(name, tokenizer_build.built_in(name))
        plain = plain_tiktoken(name)
        tokens = sum(map(len, tokenizer.encode_batch(texts)))
        ours, theirs, bare = timed(
            (f"ids, {name}", partial(tokenizer.encode_batch, texts)),
            (f"ids, {name} in its Hugging Face form", partial(hugging_face.encode_batch, texts)),
            (f"ids, tiktoken with the ranks of {name}", partial(encode_each, plain, texts)),
            items=tokens,
            unit="tokens",
        )
        ratio("  the Hugging Face form takes", theirs, ours)
        ratio("  ours takes, of tiktoken alone", ours, bare)


def encode_each(encoding: tiktoken.Encoding, texts: Sequence[str]) -> list[list[int]]:
    return [encoding.encode(text, allowed_special="all") for text in texts]


def plain_tiktoken(name: str) -> tiktoken.Encoding:
    lines = tokenizer_build.rank_file(name).read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    tokenizer = load_tokenizer(name)
    added = {tokenizer.piece(id_): id_ for id_ in tokenizer.added}
    pattern = tokenizer_build.RECIPES[name].pattern
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=added)


def bench_start() -> None:
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
    timed(*((f"start: {label}", _call(argv)) for label, argv in commands.items()), items=1, unit="calls")


def _call(argv: Sequence[str]) -> Callable[[], object]:
    command = [sys.executable, *argv]
    return lambda: subprocess.run(command, cwd=ROOT, input=b"[C]<1.0,2.0,3.0>", capture_output=True, check=True)


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, as the project's figures are stated
    set_of = molecules()
    texts = [written(one, seed) for seed, one in enumerate(set_of)]
    print(f"{'':<52} {'median ms':>11}  {'least .. most':>22}")
    bench_templates(set_of, texts)
    bench_codec(set_of, texts)
    bench_blocks(texts)
    bench_alignment(texts)
    bench_tokenizers(texts)
    bench_start()


if __name__ == "__main__":
    main()
