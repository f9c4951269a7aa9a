"""``encode`` and ``decode``: molecules with conformers to enriched text and back, from a terminal."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.cli.options import add_bins_option, add_command, add_decimals_option, add_reader_option, form_of
from engine.cli.output import emit_json, given_text, path_of, table, write
from engine.folders import exporting


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    encode = add_command(commands, "encode", run_encode, "an SDF or MOL file as enriched text")
    encode.add_argument("file", help="an .sdf, .mol or .sdf.gz file with 3D coordinates")
    add_decimals_option(encode)
    add_bins_option(encode)
    decode = add_command(commands, "decode", run_decode, "enriched text as a molecule, and whether its stereo is right")
    decode.add_argument("text", help="enriched text, with or without its tags; - reads standard input")
    decode.add_argument("--sdf", metavar="FILE", help="write the conformer as SDF")
    decode.add_argument("--xyz", metavar="FILE", help="write the conformer as XYZ")
    add_reader_option(decode)
    add_bins_option(decode)
    decode.set_defaults(least_decimals=4)


def run_encode(args: argparse.Namespace) -> None:
    from engine.chem.enriched import encode
    from engine.chem.structure_files import read_molecules

    form = form_of(args)
    encoded = [encode(mol, form) for mol in read_molecules(path_of(args.file))]
    if not args.json:
        return write("\n".join(record.text for record in encoded))
    records = [{"smiles": record.smiles, "enriched": record.text} for record in encoded]
    # A file is mostly one molecule: its keys stand at the top, all records below them.
    return emit_json({**records[0], "records": records})


def run_decode(args: argparse.Namespace) -> None:
    from engine.chem.enriched import as_decimals
    from engine.chem.stereo import judge_stereo
    from engine.chem.structure_files import to_sdf, to_xyz
    from engine.text.readers import decode_with

    decoded = decode_with(args.reader, as_decimals(given_text(args.text, None), form_of(args)))
    if args.sdf:
        with exporting(path_of(args.sdf)) as file:
            file.write(to_sdf([decoded.mol]).encode())
    if args.xyz:
        with exporting(path_of(args.xyz)) as file:
            file.write(to_xyz(decoded.mol).encode())
    stereo = judge_stereo(decoded.mol, decoded.mol)
    if args.json:
        judged = {"right": stereo.right, "sites": [asdict(site) for site in stereo.sites]}
        return emit_json({"smiles": decoded.smiles, "coordinates": decoded.coordinates, "stereo": judged})
    atoms = zip(decoded.mol.GetAtoms(), decoded.numbers, strict=True)
    write(decoded.smiles)
    write(table(("atom", "x", "y", "z"), [(atom.GetSymbol(), *numbers) for atom, numbers in atoms]))
    return write(stereo.words())
