"""Builds the training corpus of the embedded models: MOSES molecules and pieces of them, with conformers.

    python -m tools.training.corpus --molecules 100000 --random-orders 2

The folder holds ``settings.json``, ``plan.arrays`` (which molecules), ``shard-*.arrays`` (their conformers and texts)
and, once all is done, ``manifest.json`` and ``molecules.smi`` (the SMILES of its conformers). The same options and
versions give the same files whatever the workers; a run that was stopped goes on where it was. ``packing`` makes of it
what travels to the training machine.

The source is read in an order drawn by hash. Each of its molecules is offered whole where it is small enough, and as a
few pieces of drawn sizes. Few of these have a stereocentre: a share of them gets groups that make some, and a share
becomes ions. Those on the wrong side of the held-out split are dropped. The offers are then taken in order until both
quotas are full, and shuffled, so that any slice of the plan is a fair sample.

``--molecules`` counts what is planned; those that do not embed or do not read back are left out and counted in the
manifest.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import rdkit
from rdkit import Chem

from engine.chem.rdkit_log import captured_log
from engine.comparing.array_files import Arrays, Meta, read_arrays, write_arrays, write_bytes
from engine.comparing.file_jobs import FileJob, key_of, run_jobs
from engine.errors import DriftscopeError, FileError
from engine.paths import cache_folder
from tools.terminal import Progress, ToolParser, run_tool
from tools.training.conformer_texts import ConformerTexts, TextRecipe, from_arrays, make_conformers
from tools.training.json_files import read_json, remove_stale, write_json
from tools.training.molecules import (
    MEMBER_SHA256,
    REQUIREMENT,
    branched,
    charged,
    draw,
    piece_near,
    read_csv,
    read_moses,
    skeleton,
    skeleton_is_held_out,
)

log = logging.getLogger(__name__)

FORMAT = "2"
"""Raise it when a change gives other molecules, conformers or texts for the same options."""
SHARD_MOLECULES = 500  # some seconds of work
SOURCES_A_JOB = 1_000
WHOLE, PIECE = "whole", "piece"
MANIFEST, SETTINGS, PLAN, SMILES = "manifest.json", "settings.json", "plan.arrays", "molecules.smi"


@dataclass(frozen=True, slots=True)
class MoleculePlan:
    molecules: int = 100_000
    least_atoms: int = 4
    most_atoms: int = 18
    fragment_share: float = 0.8
    charged_share: float = 0.1
    seed: int = 0
    held_out: bool = False
    pieces_each: int = 3
    branched_share: float = 0.8


@dataclass(frozen=True, slots=True)
class Settings:
    """All that the corpus depends on, but for versions."""

    wanted: MoleculePlan
    recipe: TextRecipe
    shard_molecules: int = SHARD_MOLECULES
    source: str = REQUIREMENT
    source_sha256: str = MEMBER_SHA256


def build_corpus(folder: Path, settings: Settings, source: Iterable[str], workers: int = 1) -> Meta:
    """Build what is missing in the folder; the manifest. The source is read only where there is no plan yet."""
    path, options = folder / SETTINGS, asdict(settings)
    if path.exists() and (begun := read_json(path)) != options:  # other options must not overwrite hours of work
        old, new = ({**opts, **opts["wanted"], **opts["recipe"], "wanted": 0, "recipe": 0} for opts in (begun, options))
        differ = ", ".join(f"{name}: {old.get(name)}, now {now}" for name, now in new.items() if old.get(name) != now)
        raise DriftscopeError(
            f"{folder} holds a corpus of other options ({differ})",
            "Give another --out, or the options that it was begun with",
        )
    write_json(path, options)
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
    refusals, sizes, centres = Counter[str](), Counter[int](), Counter[int]()
    for done in finished:
        refusals.update(done.meta["refusals"])
        for counts, name in ((sizes, "sizes"), (centres, "centres")):
            counts.update({int(value): count for value, count in done.meta[name].items()})
    manifest = {
        "settings": asdict(settings),
        "versions": _versions(),
        "planned": dict(Counter(kind for kind, _ in plan)),
        "refusals": dict(refusals),
        **{name: sum(done.meta[name] for done in finished) for name in ("conformers", "texts", "atoms")},
        "sizes": {str(size): sizes[size] for size in sorted(sizes)},  # conformers by heavy atoms
        "centres": {str(number): centres[number] for number in sorted(centres)},  # texts
        "shards": {done.path.name: done.meta["key"] for done in finished},
    }
    # Also what the plan was made of, and shards of an older format that had more.
    remove_stale(folder, ("shard-*.arrays", "offers-*.arrays"), {done.path.name for done in finished})
    write_json(folder / MANIFEST, manifest)
    smiles = dict.fromkeys(entry.texts[0][0] for entry in read_corpus(folder))
    write_bytes(folder / SMILES, "".join(f"{line}\n" for line in smiles).encode())
    return manifest


def read_corpus(folder: Path) -> Iterator[ConformerTexts]:
    for name in corpus_manifest(folder)["shards"]:
        try:
            yield from from_arrays(read_arrays(folder / name)[1])
        except FileError as error:
            raise FileError(error.what, "Run the command that built the corpus again") from error


def corpus_manifest(folder: Path) -> Meta:
    if not (folder / MANIFEST).is_file():
        raise FileError(f"{folder} holds no finished corpus", "Build it with python -m tools.training.corpus")
    return read_json(folder / MANIFEST)


def _plan(folder: Path, settings: Settings, source: Iterable[str], workers: int) -> list[tuple[str, str]]:
    path = folder / PLAN
    key = key_of("plan", asdict(settings), _versions())
    plan = None
    try:
        meta, arrays = read_arrays(path) if path.exists() else ({}, {})
        if meta.get("key") == key:
            lines = arrays["lines"].tobytes().decode().splitlines()
            plan = [(kind, smiles) for kind, _, smiles in (line.partition("\t") for line in lines)]
    except FileError as error:
        log.warning("%s: made again", error.what)
    if plan is None:
        plan = plan_molecules(source, settings.wanted, folder, workers)
        content = "\n".join(f"{kind}\t{smiles}" for kind, smiles in plan).encode()
        write_arrays(path, {"key": key}, {"lines": np.frombuffer(content, dtype=np.uint8)})
    if not plan:
        raise DriftscopeError("the source holds no molecule of these sizes", "Widen --least-atoms and --most-atoms")
    if len(plan) < settings.wanted.molecules:
        log.warning("the source gives %s of %s molecules", f"{len(plan):,}", f"{settings.wanted.molecules:,}")
    return plan


def plan_molecules(source: Iterable[str], wanted: MoleculePlan, folder: Path, workers: int) -> list[tuple[str, str]]:
    pieces = round(wanted.molecules * wanted.fragment_share)
    quotas = {WHOLE: wanted.molecules - pieces, PIECE: pieces}
    taken: dict[str, str] = {}
    drawn = sorted(set(source), key=lambda smiles: draw("source", str(wanted.seed), smiles))
    parts = [drawn[start : start + SOURCES_A_JOB] for start in range(0, len(drawn), SOURCES_A_JOB)]
    progress = Progress("plan", wanted.molecules)
    used = 0
    while used < len(parts) and any(quotas.values()):
        kinds = [kind for kind, quota in quotas.items() if quota]  # what is full costs no more time
        jobs = (
            FileJob(
                folder / f"offers-{index:05d}.arrays",
                make_offers,
                {"wanted": asdict(wanted), "kinds": kinds, "smiles": parts[index]},
                _versions(),
            )
            for index in range(used, len(parts))
        )
        with closing(run_jobs(jobs, workers)) as finished:
            for done in finished:
                used += 1
                before = len(taken)
                for line in read_arrays(done.path)[1]["lines"].tobytes().decode().splitlines():
                    kind, _, smiles = line.partition("\t")
                    if quotas[kind] and smiles not in taken:
                        taken[smiles] = kind
                        quotas[kind] -= 1
                progress.advance(len(taken) - before)
                if not all(quotas[kind] for kind in kinds):
                    break
    shuffled = sorted(taken, key=lambda smiles: draw("plan", str(wanted.seed), smiles))
    return [(taken[smiles], smiles) for smiles in shuffled]


def make_offers(payload: dict[str, Any]) -> tuple[Meta, Arrays]:
    """A job: what a list of source molecules offers, one line each: kind, tab, SMILES."""
    wanted, kinds = MoleculePlan(**payload["wanted"]), payload["kinds"]
    with captured_log():
        lines = [f"{kind}\t{smiles}" for text in payload["smiles"] for kind, smiles in offers(text, wanted, kinds)]
    return {"offers": len(lines)}, {"lines": np.frombuffer("\n".join(lines).encode(), dtype=np.uint8)}


def offers(source: str, wanted: MoleculePlan, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Kind and SMILES of what one source molecule gives of these kinds."""
    mol = Chem.MolFromSmiles(source)
    if mol is None:
        return
    rng = random.Random(draw("offers", str(wanted.seed), source))

    def fit(kind: str, mol: Chem.Mol) -> Iterator[tuple[str, str]]:
        """The molecule, with groups that make stereocentres, or an ion of it, if it may be used."""
        if rng.random() < wanted.branched_share:
            mol = branched(mol, wanted.most_atoms, rng)
        if rng.random() < wanted.charged_share:
            mol = next(charged(mol, rng.getrandbits(32)), mol)
        is_sized = wanted.least_atoms <= mol.GetNumHeavyAtoms() <= wanted.most_atoms
        if is_sized and skeleton_is_held_out(skeleton(mol)) == wanted.held_out:
            yield kind, Chem.MolToSmiles(mol)

    if WHOLE in kinds and wanted.least_atoms <= mol.GetNumAtoms() <= wanted.most_atoms:
        yield from fit(WHOLE, mol)
    for _ in range(wanted.pieces_each if PIECE in kinds else 0):
        size = rng.randint(wanted.least_atoms, wanted.most_atoms)
        piece = piece_near(mol, size, wanted.most_atoms, rng)
        if piece is not None:
            yield from fit(PIECE, piece)


def _versions() -> dict[str, str]:
    return {"format": FORMAT, "rdkit": rdkit.__version__, "numpy": np.__version__}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.corpus", description="Build the training corpus.")
    wanted, recipe = MoleculePlan(), TextRecipe()
    add = parser.add_argument
    add("--molecules", type=int, default=wanted.molecules, metavar="N", help="molecules to plan (%(default)s)")
    add("--least-atoms", type=int, default=wanted.least_atoms, metavar="N", help="heavy atoms (%(default)s)")
    add("--most-atoms", type=int, default=wanted.most_atoms, metavar="N", help="heavy atoms (%(default)s)")
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
        out, options = chosen.out or cache_folder() / "corpus", vars(chosen)
        counts = {name: options[name] for name in ("molecules", "conformers", "shard_molecules")}
        least, most = chosen.least_atoms, chosen.most_atoms
        if min(counts.values()) < 1 or not 1 <= least <= most:
            problem = f"{counts} of {least} to {most} heavy atoms cannot be built"
            raise DriftscopeError(problem, "Give 1 or more of each, and no more least than most atoms")
        plan_of = MoleculePlan(
            **{field.name: options[field.name] for field in fields(MoleculePlan) if field.name in options}
        )
        recipe_of = TextRecipe(**{field.name: options[field.name] for field in fields(TextRecipe)})
        source, settings = read_moses(), Settings(plan_of, recipe_of, chosen.shard_molecules)
        if chosen.source is not None:
            source = read_csv(chosen.source)
            sha256 = hashlib.sha256(chosen.source.read_bytes()).hexdigest()
            settings = replace(settings, source=chosen.source.name, source_sha256=sha256)
        manifest = build_corpus(out, settings, source, chosen.workers)
        log.info("%s: %s texts, %s refused", out, f"{manifest['texts']:,}", sum(manifest["refusals"].values()))

    return run_tool(build)


if __name__ == "__main__":
    from tools.training import corpus

    # By its name: a worker imports what it runs, and knows no __main__ of another process.
    raise SystemExit(corpus.main())
