"""Right molecules: what a model writes under each LP, what repairs it afterwards, and ETKDGv3 without a model.

    python -m tools.bench.right_molecules              200 held-out molecules, both final models
    python -m tools.bench.right_molecules --drugs      ``drugs.tsv``: larger than any molecule that the models learnt
    python -m tools.bench.right_molecules --replay     the time of shaped, with passes of Qwen3-0.6B's shape

An answer a molecule, Qwen's own sampling, the same seed under every LP, judged as ``_verdicts`` says. *Usable*: clean
text, stereo right, all of ``mol_fast`` passed. COV and MAT are at 0.75 Å against 10 conformers by ETKDGv3, in favour of
what it makes or mends; without a clean answer a molecule counts 0 in COV and is in no MAT. What cannot be repaired
stays as it is. Seconds are of generation, and of the product's verdict or the repair. Intervals are 95 %, by molecule.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from engine.chem.geometry import ENERGY
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.figures.statistics import Bootstrap, Interval, interval
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from tools.bench._beside import REPLAY_HEAD, replayed
from tools.bench._measure import figure, machine, note, over, pin, show
from tools.bench._methods import COVERAGE, LPS, REBUILT, Bench, Method, Times, conformer_of
from tools.bench._verdicts import STEREO, Verdict, embedded_near, judge
from tools.bench.sizes import SHAPES

MODELS = ("demo-qwen:final", "demo-llama:final")
DRUGS = Path(__file__).with_name("drugs.tsv")


def percent(values: Sequence[bool]) -> str:
    return f"{100 * np.mean(values):.1f} %" if len(values) else ""


def cell(value: Interval | None, scale: float = 1.0, decimals: int = 3) -> str:
    """A figure and its interval."""
    if value is None:
        return ""
    middle, *ends = (f"{scale * each:.{decimals}f}" for each in (value.value, *(value.ends or ())))
    return f"{middle} ({' .. '.join(ends)})" if ends else middle


def mean_cell(values: np.ndarray, scale: float, decimals: int) -> str:
    """Over the molecules that have the figure."""
    is_known = np.isfinite(values)
    return cell(Bootstrap(len(values)).ratio(np.where(is_known, values, 0.0), 1.0 * is_known), scale, decimals)


def median_cell(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    return f"{median(known):.2f}" if len(known) else ""


def right_cells(method: Method) -> dict[str, str]:
    verdicts, usable = method.verdicts, method.values("usable")
    share = Bootstrap(len(usable)).share(usable, np.ones(len(usable)))
    return {
        "": method.name,
        "usable %": cell(share, 100, 1),
        "stereo right": percent([verdict.stereo_right for verdict in verdicts if verdict.sites]),
        "sites right": "{:.0f} of {:.0f}".format(*(method.values(name).sum() for name in ("sites_right", "sites"))),
        "mol_fast": percent([verdict.passes(STEREO, ENERGY) for verdict in verdicts]),
        "mol": percent([verdict.passes(STEREO) for verdict in verdicts]),
        "strain per heavy atom, kcal/mol": median_cell(method.values("strain_per_atom")),
        "RMSD to its minimum, Å": median_cell(method.values("moved_ang")),
    }


def cost_cells(method: Method) -> dict[str, str]:
    weights = [weight for weight in method.log_weight if weight is not None]
    usable = method.values("usable").sum()
    cells = {"": method.name}
    cells |= {f"{name} %": mean_cell(method.covered(name), 100, 1) for name in COVERAGE[:2]}
    cells |= {f"{name} Å": mean_cell(method.covered(name), 1, 3) for name in COVERAGE[2:]}
    return cells | {
        "log weight": f"{median(weights):.2f} (of {len(weights)})" if weights else "",
        "tokens": f"{method.tokens:,}",
        "thrown away": f"{method.thrown:,}",
        "passes": f"{method.passes:,}",
        "seconds": figure(method.seconds),
        "seconds per usable one": figure(method.seconds / usable) if usable else "",
    }


def strain_pair(test: Method, control: Method) -> tuple[str, ...]:
    """Medians over molecules usable under both."""
    values = np.stack([method.values("strain_per_atom") for method in (test, control)])
    values = values[:, np.isfinite(values).all(axis=0) & (test.values("usable") * control.values("usable") > 0)]
    count = values.shape[1]
    what = f"strain per heavy atom, {test.name} - {control.name}, {count} usable under both"
    if not count:
        return what, "", ""
    drawn = np.median(values[:, np.random.default_rng(0).integers(0, count, (2_000, count))], axis=2)  # [2, draws]
    first, second = np.median(values, axis=1)
    return what, f"{first:.2f}, {second:.2f}", cell(interval(float(first - second), drawn[0] - drawn[1], count))


def covered_pair(name: str, test: Method, control: Method) -> tuple[str, ...]:
    """Means over molecules that have the figure under both."""
    values = np.stack([control.covered(name), test.covered(name)], axis=1)
    values = values[np.isfinite(values).all(axis=1)]
    difference = Bootstrap(len(values)).difference(values, np.ones_like(values))
    second, first = values.mean(axis=0)
    what = f"{name}, {test.name} - {control.name}, {len(values)} molecules"
    return what, f"{first:.3f}, {second:.3f}", cell(difference)


def pair_rows(methods: Sequence[Method], timings: dict[str, Times]) -> list[tuple[str, ...]]:
    exact, guarded, shaped = (next(method for method in methods if method.name == lp) for lp in LPS)
    rows = [strain_pair(shaped, exact), strain_pair(shaped, guarded)]
    rows += [covered_pair(name, shaped, exact) for name in ("MAT-P", "COV-R")]
    taken, base = (method.tokens + method.thrown for method in (shaped, exact))
    rows.append(("tokens kept and thrown away, shaped / exact", f"{taken:,}, {base:,}", f"{taken / base:.3f}"))
    for number, clock in enumerate(("seconds", "CPU seconds")):
        by_lp = {lp: [times[number] for times in timings[lp]] for lp in LPS}
        for lp in LPS[1:]:
            both = f"{figure(median(by_lp[lp]))}, {figure(median(by_lp['exact']))}"
            rows.append((f"{clock} in turn, {lp} / exact", both, "{} ({})".format(*over(by_lp[lp], by_lp["exact"]))))
    return rows


def show_cells(title: str, rows: Sequence[dict[str, str]]) -> None:
    show(title, "|".join(rows[0]), [tuple(row.values()) for row in rows])


# --- what is asked for ------------------------------------------------------------------------------------------------


def whole(loaded: LoadedModel, args: argparse.Namespace) -> dict[str, Any]:
    bench = Bench(loaded, load_run_set(args.molecules), args.batch)
    timings, methods = bench.timings(args.repeats), bench.methods()
    layers = sum(weight.numel() for weight in loaded.model.model.layers.parameters())
    title = f"{loaded.entry.name}, {layers / 1e6:.1f} M weights in its layers, {len(bench.molecules)} molecules"
    pairs = pair_rows(methods, timings)
    show_cells(title, [right_cells(method) for method in methods])
    show_cells(f"{title}: coverage and cost", [cost_cells(method) for method in methods])
    show(f"{title}: side by side, {args.repeats} rounds of timing", "|both|difference or ratio", pairs)
    figures = [asdict(replace(method, conformers=[])) for method in methods]
    smiles = [molecule.smiles for molecule in bench.molecules]
    return {"layers": layers, "smiles": smiles, "methods": figures, "pairs": pairs, "timings": timings}


def drugs(loaded: LoadedModel, args: argparse.Namespace) -> dict[str, Any]:
    names, smiles = zip(*(line.split("\t") for line in DRUGS.read_text("utf-8").splitlines()[1:]), strict=True)
    bench = Bench(loaded, smiles, args.batch)
    verdicts: dict[str, list[list[Verdict]]] = {REBUILT: []}  # by drug
    for lp in LPS:
        note(f"{loaded.entry.name}: {lp}")
        samples = iter(bench.generate(lp, range(len(names)), generations=args.answers).in_order())
        verdicts[lp] = []
        for molecule in bench.molecules:
            conformers = [conformer_of(sample) for sample in islice(samples, args.answers)]
            verdicts[lp].append(drug_verdicts(conformers, molecule.mol))
            if lp == "exact":
                rebuilt = [mol and (embedded_near(mol, molecule.mol) or mol) for mol in conformers]
                verdicts[REBUILT].append(drug_verdicts(rebuilt, molecule.mol))
    rows = [
        {"drug": name, "heavy atoms": str(molecule.heavy_atoms), "sites": str(verdicts["exact"][number][0].sites)}
        | drug_cells({way: verdicts[way][number] for way in verdicts})
        for number, (name, molecule) in enumerate(zip(names, bench.molecules, strict=True))
    ]
    every = {way: [verdict for answers in verdicts[way] for verdict in answers] for way in verdicts}
    rows.append({"drug": "all", "heavy atoms": "", "sites": ""} | drug_cells(every))
    show_cells(f"{loaded.entry.name}: usable of {args.answers} answers", rows)
    return {way: [list(map(asdict, answers)) for answers in verdicts[way]] for way in verdicts}


def drug_verdicts(conformers: Sequence[Any], expected: Any) -> list[Verdict]:
    """Without the energy ratio, which takes ten seconds for a drug."""
    return [judge(mol, expected, settings="mol_fast") for mol in conformers]


def drug_cells(verdicts: dict[str, list[Verdict]]) -> dict[str, str]:
    """How many are usable, and how many of the others fail each check under ``shaped``."""
    failed = Counter(name for verdict in verdicts["shaped"] if not verdict.usable for name in verdict.failed)
    words = ", ".join(f"{name} {count}" for name, count in failed.most_common())
    usable = {way: sum(verdict.usable for verdict in verdicts[way]) for way in (*LPS, REBUILT)}
    return {way: f"{count} of {len(verdicts[way])}" for way, count in usable.items()} | {"shaped fails by": words}


def replay(loaded: LoadedModel, args: argparse.Namespace) -> dict[str, Any]:
    smiles = load_run_set(min(args.molecules, args.batch))
    rows = replayed(loaded, [parse_smiles(text) for text in smiles], SHAPES["qwen3-0.6b"], args.batch)
    show(f"{loaded.entry.name}'s tokens, passes of Qwen3-0.6B's shape, {len(smiles)} at once", REPLAY_HEAD, rows)
    return {"rows": rows}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="ALIAS or ALIAS:STEP; may be repeated")
    parser.add_argument("--molecules", type=int, default=200, help="the first of data/heldout.smi")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3, help="rounds of timing")
    parser.add_argument("--threads", type=int, default=2, help="fewer where others need the cores too")
    parser.add_argument("--drugs", action="store_true")
    parser.add_argument("--answers", type=int, default=5, help="for each drug")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--out", type=Path, help="all figures, as JSON")
    args = parser.parse_args(argv)
    pin(args.threads)
    print(f"{machine('torch', 'transformers', 'rdkit', 'posebusters')} Batches of {args.batch}.\n", flush=True)
    part = drugs if args.drugs else replay if args.replay else whole
    figures = {}
    for name in args.model or MODELS:
        loaded = load_model(load_registry().find(name), "cpu")
        figures[loaded.entry.name] = part(loaded, args)
    if args.out:
        args.out.write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
