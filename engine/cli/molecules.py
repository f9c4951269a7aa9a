"""``encode`` and ``decode``: molecules with conformers to enriched text and back, from a terminal."""

from __future__ import annotations

import argparse

from engine.cli.main import emit_json
from engine.cli.output import given_text, json_option, path_of, table, write
from engine.records import NumberFormat


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    encode = commands.add_parser("encode", parents=[json_option()], help="an SDF or MOL file as enriched text")
    encode.add_argument("file", help="an .sdf, .mol or .sdf.gz file with 3D coordinates")
    encode.add_argument("--least-decimals", type=int, choices=(1, 2, 3, 4), default=4, help="1 drops trailing zeros")
    encode.set_defaults(run=run_encode)
    decode = commands.add_parser("decode", parents=[json_option()], help="enriched text as a molecule")
    decode.add_argument("text", help="enriched text, with or without its tags; - reads standard input")
    decode.add_argument("--sdf", metavar="FILE", help="write the conformer as SDF")
    decode.add_argument("--xyz", metavar="FILE", help="write the conformer as XYZ")
    decode.set_defaults(run=run_decode)


def run_encode(args: argparse.Namespace) -> None:
    from engine.chem.enriched import encode
    from engine.chem.files import read_molecules

    form = NumberFormat(least_decimals=args.least_decimals)
    encoded = [encode(mol, form) for mol in read_molecules(path_of(args.file))]
    if not args.json:
        return write("\n".join(record.text for record in encoded))
    records = [{"smiles": record.smiles, "enriched": record.text} for record in encoded]
    # A file is mostly one molecule: its keys stand at the top, all records below them.
    return emit_json({**records[0], "records": records})


def run_decode(args: argparse.Namespace) -> None:
    from engine.chem.enriched import decode
    from engine.chem.files import to_sdf, to_xyz

    decoded = decode(given_text(args.text, None))
    if args.sdf:
        path_of(args.sdf).write_text(to_sdf([decoded.mol]), encoding="utf-8")
    if args.xyz:
        path_of(args.xyz).write_text(to_xyz(decoded.mol), encoding="utf-8")
    if args.json:
        return emit_json({"smiles": decoded.smiles, "coordinates": decoded.coordinates})
    atoms = zip(decoded.mol.GetAtoms(), decoded.numbers, strict=True)
    write(decoded.smiles)
    return write(table(("atom", "x", "y", "z"), [(atom.GetSymbol(), *numbers) for atom, numbers in atoms]))
