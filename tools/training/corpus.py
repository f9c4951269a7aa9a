"""Builds the training corpus of the embedded models: MOSES molecules and pieces of them, with conformers.

    python -m tools.training.corpus --molecules 100000 --random-orders 2

The folder holds ``settings.json``, ``plan.arrays`` (which molecules), ``shard-*.arrays`` (their conformers and texts)
and, once all is done, ``manifest.json``. The same options and versions give the same files whatever the workers; a run
that was stopped goes on where it was. ``packing`` makes of it what travels to the training machine.

What this module does not know: tokenizers and models. ``--molecules`` counts what is planned; those that do not embed
or do not read back are left out and counted in the manifest.
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rdkit

from engine.array_files import Meta, read_arrays, read_json, remove_stale, sha256_of, write_arrays, write_json
from engine.errors import DriftscopeError, FileFormatError
from engine.file_jobs import FileJob, FinishedJob, key_of, run_jobs
from engine.paths import cache_folder
from tools.terminal import Progress, ToolParser, run_tool
from tools.training.conformer_texts import ConformerTexts, TextRecipe, from_arrays, make_conformers
from tools.training.corpus_plan import MoleculePlan, plan_molecules
from tools.training.moses import FILES, REQUIREMENT, read_csv, read_moses

log = logging.getLogger(__name__)

FORMAT = "2"
"""Raise it when a change gives other molecules, conformers or texts for the same options."""
SHARD_MOLECULES = 500  # some seconds of work
MANIFEST, SETTINGS, PLAN = "manifest.json", "settings.json", "plan.arrays"


@dataclass(frozen=True, slots=True)
class Settings:
    """All that the corpus depends on, but for versions."""

    wanted: MoleculePlan
    recipe: TextRecipe
    shard_molecules: int = SHARD_MOLECULES
    source: str = REQUIREMENT
    source_sha256: str = FILES["train"].sha256

    def __post_init__(self) -> None:
        if self.shard_molecules < 1:
            raise DriftscopeError(f"shards of {self.shard_molecules} molecules were asked for", "Give 1 or more")
        if not 1 <= self.recipe.conformers <= 100:
            raise DriftscopeError(f"{self.recipe.conformers} conformers a molecule were asked for", "Give 1 to 100")
        if not 0 <= self.recipe.random_orders <= 100:
            raise DriftscopeError(f"{self.recipe.random_orders} random orders were asked for", "Give 0 to 100")
        if not 0 <= self.recipe.stereo_share <= 1:
            raise DriftscopeError(f"the stereo share is {self.recipe.stereo_share:g}", "Give a number from 0 to 1")


def build_corpus(folder: Path, settings: Settings, source: Iterable[str], workers: int = 1) -> Meta:
    """Build what is missing in the folder; the manifest. The source is read only where there is no plan yet."""
    _claim(folder, settings)
    plan = _plan(folder, settings, source, workers)
    log.info("plan: %s molecules", f"{len(plan):,}")
    progress = Progress("conformers", len(plan))
    finished = []
    step = settings.shard_molecules
    parts = ([smiles for _, smiles in plan[start : start + step]] for start in range(0, len(plan), step))
    payloads = ({"recipe": asdict(settings.recipe), "smiles": part} for part in parts)
    jobs = (
        FileJob(folder / f"shard-{index:05d}.arrays", make_conformers, payload, _versions())
        for index, payload in enumerate(payloads)
    )
    with closing(run_jobs(jobs, workers)) as running:
        for done in running:
            progress.advance(int(done.meta["molecules"]), was_there=done.was_there)
            finished.append(done)
    manifest = _manifest(settings, plan, finished)
    # Also what the plan was made of, and shards of an older format that had more.
    remove_stale(folder, ("shard-*.arrays", "offers-*.arrays"), {done.path.name for done in finished})
    write_json(folder / MANIFEST, manifest)
    return manifest


def read_corpus(folder: Path) -> Iterator[ConformerTexts]:
    """The conformers of a finished corpus, in its order; ``FileFormatError`` names a shard that is damaged."""
    for name in corpus_manifest(folder)["shards"]:
        try:
            yield from from_arrays(read_arrays(folder / name)[1])
        except FileFormatError as error:
            raise FileFormatError(error.what, "Run the command that built the corpus again") from error


def corpus_manifest(folder: Path) -> Meta:
    if not (folder / MANIFEST).is_file():
        raise FileFormatError(f"{folder} holds no finished corpus", "Build it with python -m tools.training.corpus")
    return read_json(folder / MANIFEST)


def _claim(folder: Path, settings: Settings) -> None:
    """One folder, one corpus: other options must not overwrite hours of work."""
    wanted = asdict(settings)
    path = folder / SETTINGS
    if path.exists():
        begun = read_json(path)
        if begun != wanted:
            raise DriftscopeError(
                f"{folder} holds a corpus of other options ({', '.join(_differences(begun, wanted))})",
                "Give another --out, or the options that it was begun with",
            )
    write_json(path, wanted)


def _differences(begun: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    for name, value in wanted.items():
        other = begun.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            yield from _differences(other, value)
        elif value != other:
            yield f"{name}: {other}, now {value}"


def _plan(folder: Path, settings: Settings, source: Iterable[str], workers: int) -> list[tuple[str, str]]:
    path = folder / PLAN
    key = key_of("plan", asdict(settings), _versions())
    plan = None
    try:
        meta, arrays = read_arrays(path) if path.exists() else ({}, {})
        if meta.get("key") == key:
            lines = arrays["lines"].tobytes().decode().splitlines()
            plan = [(kind, smiles) for kind, _, smiles in (line.partition("\t") for line in lines)]
    except FileFormatError as error:
        log.warning("%s: made again", error.what)
    if plan is None:
        plan = plan_molecules(source, settings.wanted, folder, _versions(), workers)
        content = "\n".join(f"{kind}\t{smiles}" for kind, smiles in plan).encode()
        write_arrays(path, {"key": key}, {"lines": np.frombuffer(content, dtype=np.uint8)})
    if not plan:
        raise DriftscopeError("the source holds no molecule of these sizes", "Widen --least-atoms and --most-atoms")
    if len(plan) < settings.wanted.molecules:
        log.warning("the source gives %s of %s molecules", f"{len(plan):,}", f"{settings.wanted.molecules:,}")
    return plan


def _manifest(settings: Settings, plan: Sequence[tuple[str, str]], finished: Sequence[FinishedJob]) -> Meta:
    refusals, sizes, centres = Counter[str](), Counter[int](), Counter[int]()
    for done in finished:
        refusals.update(done.meta["refusals"])
        for counts, name in ((sizes, "sizes"), (centres, "centres")):
            counts.update({int(value): count for value, count in done.meta[name].items()})
    return {
        "settings": asdict(settings),
        "versions": _versions(),
        "planned": dict(Counter(kind for kind, _ in plan)),
        "refusals": dict(refusals),
        "conformers": sum(done.meta["conformers"] for done in finished),
        "texts": sum(done.meta["texts"] for done in finished),
        "atoms": sum(done.meta["atoms"] for done in finished),
        "sizes": {str(size): sizes[size] for size in sorted(sizes)},  # conformers by heavy atoms
        "centres": {str(number): centres[number] for number in sorted(centres)},  # texts
        "shards": {done.path.name: done.meta["key"] for done in finished},
    }


def _versions() -> dict[str, str]:
    return {"format": FORMAT, "rdkit": rdkit.__version__, "numpy": np.__version__}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.corpus", description="Build the training corpus.")
    wanted, recipe = MoleculePlan(), TextRecipe()
    add = parser.add_argument
    add("--molecules", type=int, default=wanted.molecules, metavar="N", help="molecules to plan (%(default)s)")
    add("--least-atoms", type=int, default=wanted.least_atoms, metavar="N", help="heavy atoms (%(default)s)")
    add("--most-atoms", type=int, default=wanted.most_atoms, metavar="N", help="heavy atoms (%(default)s)")
    add("--fragment-share", type=float, default=wanted.fragment_share, metavar="F", help="pieces (%(default)s)")
    add("--charged-share", type=float, default=wanted.charged_share, metavar="F", help="ions (%(default)s)")
    add("--branched-share", type=float, default=wanted.branched_share, metavar="F", help="made chiral (%(default)s)")
    add("--stereo-share", type=float, default=recipe.stereo_share, metavar="F", help="stereo stated (%(default)s)")
    add("--conformers", type=int, default=recipe.conformers, metavar="N", help="a molecule (%(default)s)")
    add("--random-orders", type=int, default=recipe.random_orders, metavar="N", help="more texts (%(default)s)")
    add("--held-out", action="store_true", help="only molecules that training must not see, for evaluation")
    add("--seed", type=int, default=0, help="another seed draws other molecules and conformers (%(default)s)")
    add("--source", type=Path, metavar="FILE", help="a gzipped CSV with a column SMILES, in place of MOSES")
    add("--out", type=Path, metavar="FOLDER", help="where it goes (corpus/ in the cache folder)")
    add("--workers", type=int, default=1, metavar="N", help="processes; they do not change the result (%(default)s)")
    add("--shard-molecules", type=int, default=SHARD_MOLECULES, metavar="N", help="a file (%(default)s)")
    chosen = parser.parse_args(arguments)

    def build() -> None:
        out = chosen.out or cache_folder() / "corpus"
        source = read_moses("train") if chosen.source is None else read_csv(chosen.source)
        manifest = build_corpus(out, settings_of(chosen), source, chosen.workers)
        log.info("%s: %s texts, %s refused", out, f"{manifest['texts']:,}", sum(manifest["refusals"].values()))

    return run_tool(build)


def settings_of(chosen: argparse.Namespace) -> Settings:
    wanted = MoleculePlan(
        chosen.molecules,
        chosen.least_atoms,
        chosen.most_atoms,
        chosen.fragment_share,
        chosen.charged_share,
        chosen.seed,
        chosen.held_out,
        branched_share=chosen.branched_share,
    )
    recipe = TextRecipe(chosen.seed, chosen.conformers, chosen.random_orders, chosen.stereo_share, chosen.held_out)
    if chosen.source is None:
        return Settings(wanted, recipe, chosen.shard_molecules)
    try:
        return Settings(wanted, recipe, chosen.shard_molecules, chosen.source.name, sha256_of(chosen.source))
    except OSError as error:
        what = f"{chosen.source} cannot be read: {error.strerror or error}"
        raise FileFormatError(what, "Give another --source") from error


if __name__ == "__main__":
    raise SystemExit(main())
