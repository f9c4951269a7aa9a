"""``tokens``, ``template``, ``drift``, ``junk``, ``encode`` and ``decode``: texts under a tokenizer, and molecules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from engine.chem.bin_files import given_bins
from engine.chem.other_forms import OTHER_WORDS, other_form
from engine.cli import terminal as cli
from engine.errors import DriftscopeError
from engine.lp_records import DEFAULT_PLACEHOLDER, NO_LP, lp_of_text, split_cleanup, usual_placeholder
from engine.records import READER_HELP, CodeFormat, NumberFormat, ReaderName
from engine.text.blocks import PROMPT, READ_FORMAT, FoundBlock, block_places, count_junk, find_blocks, read_blocks
from engine.user_files import writing

app = cli.new_app()
TOKENIZER = cli.option(..., "qwen3, llama3 or a tokenizer folder", metavar="T")
PLACEHOLDER = cli.option(DEFAULT_PLACEHOLDER, "bins have one of their own", metavar="P")
DECIMALS = cli.option(4, "1 drops trailing zeros, 0 a trailing point too")
BINS_HELP = "numbers of bins: of a JSON FILE, or in brackets of WIDTH angstrom from -RANGE to RANGE, such as 0.042 21"
BINS = cli.option(None, BINS_HELP, metavar="FILE or WIDTH RANGE")
Bins = tuple[str, str] | None
READER = cli.option("strict", READER_HELP)
FORMATS: dict[type[NumberFormat], str] = {CodeFormat: "codes"}  # besides enriched text


def form_of(bins: Bins, *decimals: int | str) -> NumberFormat:
    """``decimals``: least, most, and at most how many digits before the point."""
    try:
        return NumberFormat(*map(int, decimals)) if bins is None else given_bins(*bins)
    except ValueError as error:
        fix = "Give for example --decimals 1-4, --bins FILE.json or --bins 0.042 21"
        raise DriftscopeError(f"there is no such number format: {error}", fix) from error


def placeholder_for(placeholder: str, form: NumberFormat) -> str:
    """That of the option, whose default is for decimals: numbers of bins have one of their own."""
    return usual_placeholder(form) if placeholder == DEFAULT_PLACEHOLDER else placeholder


@cli.command(app, "tokens")
def tokens(
    out: cli.Output,
    text: str = cli.words(..., "TEXT", "any text; - reads standard input, -- goes before a text that begins with -"),
    tokenizer: str = TOKENIZER,
) -> int:
    """the tokens of a text"""
    from engine.text.tokenizers import load_tokenizer

    pieces = load_tokenizer(tokenizer).tokens(cli.given_text(text))
    rows = [cli.picked(token, "id piece start end") for token in pieces]
    return out.show({"tokenizer": tokenizer, "count": len(pieces), "tokens": rows})


@cli.command(app, "template")
def template(
    out: cli.Output,
    smiles: str = cli.words(..., "SMILES"),
    tokenizer: str = TOKENIZER,
    placeholder: str = PLACEHOLDER,
    tags: bool = cli.option(False, "with [CONFORMER] and [/CONFORMER] around the skeleton"),
    bins: Bins = BINS,
) -> int:
    """a molecule's template and its roles"""
    from engine.chem.enriched import skeleton_of
    from engine.chem.smiles import parse_smiles
    from engine.text.generated import read_tokens
    from engine.text.template import build_template
    from engine.text.tokenizers import load_tokenizer

    molecule = parse_smiles(smiles)
    by = load_tokenizer(tokenizer)
    form = form_of(bins)
    placeholder = placeholder_for(placeholder, form)
    made = build_template(skeleton_of(molecule, form=form), by, placeholder, tags=tags, form=form)
    rows = [
        {"position": position, **cli.picked(token, "id piece start end role block")}
        for position, token in enumerate(read_tokens(made, by))
    ]
    counts = cli.picked(made, "tokens free copy boundary")
    return out.show({"smiles": molecule.smiles, "text": made.text, "tokenizer": tokenizer, **counts, "rows": rows})


@cli.command(app, "drift")
def drift(
    out: cli.Output,
    tokenizer: str = TOKENIZER,
    placeholder: str = PLACEHOLDER,
    smiles: list[str] | None = cli.option(None, "reference conformers of these molecules", metavar="SMILES..."),
    first: int | None = cli.option(None, "the first N of data/molecules.tsv", "--set", of=cli.most(2_000), metavar="N"),
    file: str | None = cli.option(None, "enriched text, one molecule per line (- is standard input), or an SDF file"),
    conformers: int | None = cli.option(None, "conformers per molecule (default 1)", of=cli.most(1_000)),
    seed: int | None = cli.option(None, "seed of the embedding (default 0)", of=cli.most(2**31 - 1, 0)),
    least_decimals: Literal[0, 1, 2, 3, 4] = DECIMALS,
    bins: Bins = BINS,
    fit: bool = cli.option(False, "also fit a placeholder to these coordinates"),
    junk_weight: float | None = cli.option(None, "cost of a surplus token (default 1)", of=cli.most(1e6, 0)),
    cut_weight: float | None = cli.option(None, "cost of a missing token (default 1)", of=cli.most(1e6, 0)),
) -> int:
    """drift of known coordinates, both signs"""
    from engine.chem.molecule_sets import load_molecule_set
    from engine.chem.smiles import parse_smiles
    from engine.text.placeholder import fit_placeholder, reference_texts, texts_of_file
    from engine.text.template import drift_summary
    from engine.text.tokenizers import load_tokenizer

    cli.one_of("--smiles, --set or --file", smiles, first, file, hint="One of them says which coordinates")
    cli.only_with("--smiles and --set", file is None, conformers=conformers, seed=seed)
    cli.only_with("--fit", fit, junk_weight=junk_weight, cut_weight=cut_weight)
    form, by = form_of(bins, least_decimals), load_tokenizer(tokenizer)
    placeholder = placeholder_for(placeholder, form)
    texts = [] if file is None else texts_of_file(file, form)
    if file is None:
        given = smiles or [entry.smiles for entry in load_molecule_set(limit=first)]
        molecules = [parse_smiles(text) for text in given]  # all of them, before the first is embedded
        with cli.status(is_quiet=out.is_json) as say:
            for number, molecule in enumerate(molecules):
                say(f"embedding {number}/{len(molecules)}")
                texts += reference_texts(molecule, form, conformers=conformers or 1, seed=seed or 0)
    summary = drift_summary(texts, by, placeholder, form)
    of_fit: dict[str, Any] = {}
    if fit:
        asked = {"junk_weight": junk_weight, "cut_weight": cut_weight}
        weights = {name: weight for name, weight in asked.items() if weight is not None}
        fitted = fit_placeholder(texts, by, form, **weights)
        of_fit = {"fitted": cli.picked(fitted, "placeholder free cost junk_weight cut_weight costs")}
    return out.show(
        {
            "tokenizer": tokenizer,
            "placeholder": placeholder,
            "texts": len(texts),
            **cli.picked(summary, "blocks exact junk_prone cut mean_drift tokens_per_atom histogram"),
            **of_fit,
        }
    )


@cli.command(app, "junk")
def junk(
    out: cli.Output,
    text: str | None = cli.words(None, "TEXT", "generated text; - reads standard input"),
    file: str | None = cli.option(None, "a file with generated text"),
    lp: str = cli.option(NO_LP, "the LP that made the text"),
    bins: Bins = BINS,
) -> int:
    """the coordinate blocks of a text, by kind; exit 2 where nothing of it is recognised"""
    by = lp_of_text(split_cleanup(lp)[0]).name  # also ``unknown``, for a text of an unnamed LP
    generated = cli.given_text(text, file)
    form = READ_FORMAT if bins is None else form_of(bins)
    blocks = find_blocks(generated, form)
    other = None if bins else other_form(generated)
    if other is not None:  # its blocks are listed and not judged
        counts: dict[str, Any] = {"bad_blocks": None, "letters": None, "nonnumeric": None, "kinds": {}}
        rows: list[Any] = [{"text": block.content, "kinds": [], "junk_text": ""} for block in blocks]
    else:
        readings = read_blocks(blocks, form=form, lp=by)
        count = count_junk(readings)
        counts = {"bad_blocks": count.not_triples, **cli.picked(count, "letters nonnumeric"), "kinds": count.by_kind}
        rows = [{"text": block.content, "kinds": list(block.kinds), "junk_text": block.junk_text} for block in readings]
    places = enumerate(_places(generated, blocks))
    recognised = bool(other or blocks)  # a form that is known by name is recognised, and not judged
    if not recognised or (other and not out.is_json):
        reason = OTHER_WORDS[other] if other else "no coordinate block found"
        cli.note(f"{reason}: nothing of this text could be judged")
    out.show(
        {
            "format": other or FORMATS.get(type(form), "enriched"),
            "blocks": len(blocks),
            **counts,
            "rows": [{"block": index, **place, **row} for (index, place), row in zip(places, rows, strict=True)],
            **({"recognised": recognised} if out.is_json else {}),
        }
    )
    return 0 if recognised else 2


def _places(text: str, blocks: Sequence[FoundBlock]) -> list[dict[str, Any]]:
    """Of each block its conformer and its prompt's SMILES, where a text has several."""
    places, prompts = block_places(text, blocks), ["", *PROMPT.findall(text)]
    if len({*places}) < 2:
        return [{} for _ in blocks]
    return [{"smiles": prompts[prompt], "conformer": number} for prompt, number in places]


@cli.command(app, "encode")
def encode_file(
    out: cli.Output,
    file: str = cli.words(..., "FILE", "an .sdf, .mol or .sdf.gz file with 3D coordinates"),
    least_decimals: Literal[0, 1, 2, 3, 4] = DECIMALS,
    bins: Bins = BINS,
) -> int:
    """an SDF or MOL file as enriched text"""
    from engine.chem.enriched import encode
    from engine.chem.structure_files import read_molecules

    form = form_of(bins, least_decimals)
    encoded = [encode(mol, form) for mol in read_molecules(Path(file))]
    if not out.is_json:
        cli.write("\n".join(record.text for record in encoded))
        return 0
    records = [{"smiles": record.smiles, "enriched": record.text} for record in encoded]
    return out.show({**records[0], "records": records})  # a file is mostly one molecule: its keys stand at the top


@cli.command(app, "decode")
def decode_text(
    out: cli.Output,
    text: str = cli.words(..., "TEXT", "enriched text, with or without its tags; - reads standard input"),
    sdf: str | None = cli.option(None, "write the conformer as SDF", metavar="FILE"),
    xyz: str | None = cli.option(None, "write the conformer as XYZ", metavar="FILE"),
    reader: ReaderName = READER,
    bins: Bins = BINS,
) -> int:
    """enriched text as a molecule, and whether its stereo is right"""
    from rdkit import Chem

    from engine.chem.stereo import judge_stereo
    from engine.chem.structure_files import to_sdf
    from engine.text.check import decode_with

    decoded = decode_with(reader, cli.given_text(text), form_of(bins))
    mol = decoded.mol
    for path, content in ((sdf, to_sdf([mol]) if sdf else ""), (xyz, Chem.MolToXYZBlock(mol) if xyz else "")):
        if path:
            with writing(Path(path)) as file:
                file.write(content.encode())
    stereo, atoms = judge_stereo(mol, mol), zip(mol.GetAtoms(), decoded.numbers, strict=True)
    return out.show(
        {
            "smiles": decoded.smiles,
            "stereo": {"right": stereo.right, "sites": [asdict(site) for site in stereo.sites]},
            "atoms": [dict(zip(("atom", *"xyz"), (atom.GetSymbol(), *xyz), strict=True)) for atom, xyz in atoms],
            **({"coordinates": decoded.coordinates} if out.is_json else {}),
        }
    )
