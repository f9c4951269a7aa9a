"""``references``: conformers that generated ones are held against, into the store; listed, made here, removed."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from engine.cli.options import add_command, open_store, read_molecules, smiles_of, whole
from engine.cli.output import StatusLine, cell, note, path_of, show
from engine.cli.store_entries import entry_row, remove_entries, without_damaged
from engine.errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.chem.heavy_conformers import HeavyConformer, OmittedConformer
    from engine.store.entries import Entry
    from engine.store.store import Store

COLUMNS = (
    ("name", "name"),
    ("form", "form"),
    ("source", "source"),
    ("molecules", "molecules"),
    ("conformers", "conformers"),
    ("repeated", "repeated"),
    ("left out", "left_out"),
    ("content", lambda row: cell(row["content"])[:12]),
)
MOST_REASONS = 10
MOST_CONFORMERS = 1_000
MOST_SEED = 2**31 - 1


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "reference conformers: add, list, make, remove"
    parser = add_command(commands, "references", list_references, what, store=True)
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=type(parser))
    what = "read reference conformers"
    add = add_command(
        inner,
        "add",
        add_references,
        what,
        "Pickles of references ({smiles: {'confs': [Mol, ...]}}), GEOM's own files, or {smiles: [Mol, ...]}, read in a "
        "process of their own that runs nothing of them; SDF with a record per conformer; Parquet with the columns "
        "smiles and xyz (x, y, z of each atom of the SMILES, in its order). Hydrogens are removed; conformers with "
        "equal bytes are kept once; one whose graph is not its molecule's is named and left out.",
        store=True,
    )
    add.add_argument("file", metavar="FILE", help="a file, or a folder of files of one form")
    add.add_argument("--label", required=True, help="the set's name, such as geom-drugs")
    make = add_command(inner, "make", make_references, "make reference conformers with ETKDGv3", store=True)
    make.add_argument("smiles", nargs="*", metavar="SMILES")
    make.add_argument("--smiles-file", metavar="FILE", help="one SMILES per line")
    make.add_argument("--per-molecule", type=whole(MOST_CONFORMERS), default=10, metavar="K", help="conformers (10)")
    make.add_argument("--seed", type=whole(MOST_SEED, 0), default=0, metavar="N")
    make.add_argument("--mmff", action="store_true", help="relax each with MMFF94")
    make.add_argument("--label", required=True, help="the set's name")
    removed = add_command(inner, "rm", remove, "remove reference sets", store=True)
    removed.add_argument("names", nargs="+", metavar="NAME")
    removed.add_argument("--yes", action="store_true", help="do not ask")


def list_references(args: argparse.Namespace) -> int:
    from engine.store.reference_schema import REFERENCES

    store = open_store(args)
    entries = without_damaged(store.found(REFERENCES)).entries
    show([_row(entry) for entry in entries], COLUMNS, is_json=args.json)
    if not entries and not args.json:
        note(f"{shown(store.home.where, 200)} has no references; `python -m engine references add` reads some")
    return 0


def add_references(args: argparse.Namespace) -> int:
    from engine.chem.reference_files import reference_source

    source = reference_source(path_of(args.file))
    return _write(args, source.conformers(), form=source.form, source=source.name)


def make_references(args: argparse.Namespace) -> int:
    from engine.chem.reference_files import made_conformers

    molecules, _ = read_molecules(smiles_of(args.smiles, args.smiles_file), args.smiles_file)
    conformers = made_conformers(molecules, args.per_molecule, seed=args.seed, mmff=args.mmff)
    relaxed = ", relaxed with MMFF94" if args.mmff else ""
    source = f"ETKDGv3, {args.per_molecule} per molecule, seed {args.seed}{relaxed}"
    return _write(args, conformers, form="etkdg", source=source, origin="made")


def remove(args: argparse.Namespace) -> int:
    from engine.store.reference_schema import REFERENCES

    store = open_store(args)
    return remove_entries(args, store, REFERENCES, args.names, lambda name: store.remove(name, REFERENCES))


def _write(args: argparse.Namespace, conformers: Iterable[HeavyConformer | OmittedConformer], **described: str) -> int:
    from engine.store.references import write_references

    store, line = open_store(args), StatusLine(is_quiet=args.json)
    try:
        entry = write_references(
            store,
            conformers,
            label=args.label,
            progress=lambda done: line.draw(f"{done:,} conformers read") if line.is_due else None,
            **described,
        )
    finally:
        line.clear()
    _say_omissions(store, entry)
    show([_row(entry)], COLUMNS, is_json=args.json)
    return 0


def _say_omissions(store: Store, entry: Entry) -> None:
    """The first of each reason, with how many there are."""
    from engine.store.references import omissions

    left_out = omissions(store, entry)
    counts = Counter((row["key"], row["reason"]) for row in left_out)
    for number, ((key, reason), count) in enumerate(counts.items()):
        if number == MOST_REASONS:
            note(f"left out: {len(counts) - number:,} more molecules and reasons, in the table reference_omissions")
            break
        first = next(row["source"] for row in left_out if (row["key"], row["reason"]) == (key, reason))
        others = f" and {count - 1:,} more" if count > 1 else ""
        note(f"left out: {first}{others}: {shown(key or '', 120)}: {reason}")


def _row(entry: Entry) -> dict[str, Any]:
    from engine.store.reference_schema import REFERENCES

    return {"name": entry.id, **entry_row(entry, REFERENCES)}
