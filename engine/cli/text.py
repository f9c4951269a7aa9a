"""``tokens``, ``template``, ``drift``, ``junk``, ``encode`` and ``decode``: texts under a tokenizer, and molecules."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from engine.cli.terminal import (
    Output,
    StatusLine,
    command,
    finite,
    given_text,
    new_app,
    note,
    one_of,
    only_with,
    option,
    path_of,
    read_text,
    whole,
    words,
    write,
)
from engine.errors import DriftscopeError, EnrichedError, shown, unquoted
from engine.folders import exporting
from engine.lp_records import lp_of_text, split_cleanup
from engine.records import READER_HELP, BinFormat, NumberFormat, ReaderName

app = new_app()
TOKENIZER = option(..., "qwen3, llama3 or a tokenizer folder", metavar="T")
PLACEHOLDER = option("0.0000,0.0000,0.0000", metavar="P")
DECIMALS = option(4, "1 drops trailing zeros, 0 a trailing point too")
BINS_HELP = "binned numbers: bins of WIDTH angstrom from -RANGE to RANGE, such as 0.042 21"
BINS = option(None, BINS_HELP, of=finite(), metavar="WIDTH RANGE")
READER = option("strict", READER_HELP)


def form_of(bins: tuple[float, float] | None, *decimals: int) -> NumberFormat:
    """``decimals``: least, most, and at most how many digits before the point."""
    try:
        return NumberFormat(*decimals) if bins is None else BinFormat(bin_ang=bins[0], range_ang=bins[1])
    except ValueError as error:
        fix = "Give for example --decimals 1-4 or --bins 0.042 21"
        raise DriftscopeError(f"there is no such number format: {error}", fix) from error


@command(app, "tokens")
def tokens(
    out: Output,
    text: str = words(..., "TEXT", "any text; - reads standard input, -- goes before a text that begins with -"),
    tokenizer: str = TOKENIZER,
) -> int:
    """the tokens of a text"""
    from engine.text.tokenizers import load_tokenizer

    found = load_tokenizer(tokenizer).tokens(given_text(text))
    rows = [{name: getattr(token, name) for name in ("id", "piece", "start", "end")} for token in found]
    return out.show({"tokenizer": tokenizer, "count": len(found), "tokens": rows})


@command(app, "template")
def template(
    out: Output,
    smiles: str = words(..., "SMILES"),
    tokenizer: str = TOKENIZER,
    placeholder: str = PLACEHOLDER,
    tags: bool = option(False, "with [CONFORMER] and [/CONFORMER] around the skeleton"),
) -> int:
    """a molecule's template and its roles"""
    from engine.chem.enriched import skeleton_of
    from engine.chem.smiles import parse_smiles
    from engine.text.template import build_template
    from engine.text.tokenizers import load_tokenizer

    molecule, by = parse_smiles(smiles), load_tokenizer(tokenizer)
    made = build_template(skeleton_of(molecule), by, placeholder, tags=tags)
    rows = [
        {
            "position": position,
            "id": id_,
            "piece": by.piece(id_),
            "start": int(made.starts[position]),
            "end": int(made.ends[position]),
            "role": made.role(position),
            "block": None if made.block_of[position] < 0 else int(made.block_of[position]),
        }
        for position, id_ in enumerate(made.ids.tolist())
    ]
    counts = {name: getattr(made, name) for name in ("tokens", "free", "copy", "boundary")}
    return out.show({"smiles": molecule.smiles, "text": made.text, "tokenizer": tokenizer, **counts, "rows": rows})


Weight = finite(1_000_000, least=0)


@command(app, "drift")
def drift(
    out: Output,
    tokenizer: str = TOKENIZER,
    placeholder: str = PLACEHOLDER,
    smiles: list[str] | None = option(None, "reference conformers of these molecules", metavar="SMILES..."),
    first: int | None = option(None, "the first N of data/molecules.tsv", "--set", of=whole(2_000), metavar="N"),
    file: str | None = option(None, "enriched text, one molecule per line (- is standard input), or an SDF file"),
    conformers: int | None = option(None, "conformers per molecule (default 1)", of=whole(1_000)),
    seed: int | None = option(None, "seed of the embedding (default 0)", of=whole(2**31 - 1, 0)),
    least_decimals: Literal[0, 1, 2, 3, 4] = DECIMALS,
    bins: tuple[float, float] | None = BINS,
    fit: bool = option(False, "also fit a placeholder to these coordinates"),
    junk_weight: float | None = option(None, "cost of a surplus token (default 1)", of=Weight),
    cut_weight: float | None = option(None, "cost of a missing token (default 1)", of=Weight),
) -> int:
    """drift of known coordinates, both signs"""
    from engine.text.drift import drift_summary
    from engine.text.placeholder import fit_placeholder
    from engine.text.tokenizers import load_tokenizer

    one_of("--smiles, --set or --file", smiles, first, file, hint="One of them says which coordinates")
    only_with("--smiles and --set", file is None, conformers=conformers, seed=seed)
    only_with("--fit", fit, junk_weight=junk_weight, cut_weight=cut_weight)
    form, by = form_of(bins, least_decimals), load_tokenizer(tokenizer)
    if file is not None:
        texts = _file_texts(file, form)
    else:
        texts = _reference_texts(smiles, first, conformers or 1, seed or 0, form)
    found = drift_summary(texts, by, placeholder)
    names = ("blocks", "exact", "junk_prone", "cut", "mean_drift", "tokens_per_atom")
    document: dict[str, Any] = {
        "tokenizer": tokenizer,
        "placeholder": placeholder,
        "texts": len(texts),
        **{name: getattr(found, name) for name in names},
        "histogram": {str(drift): count for drift, count in found.histogram.items()},
    }
    if fit:
        weights = [1.0 if weight is None else weight for weight in (junk_weight, cut_weight)]
        fitted = fit_placeholder(texts, by, junk_weight=weights[0], cut_weight=weights[1])
        document["fitted"] = {
            **{name: getattr(fitted, name) for name in ("placeholder", "free", "cost", "junk_weight", "cut_weight")},
            "costs": {str(free): cost for free, cost in fitted.costs.items()},
        }
    return out.show(document)


@command(app, "junk")
def junk(
    out: Output,
    text: str | None = words(None, "TEXT", "generated text; - reads standard input"),
    file: str | None = option(None, "a file with generated text"),
    lp: str = option("none", "the LP that made the text"),
    bins: tuple[float, float] | None = BINS,
) -> int:
    """the coordinate blocks of a text, by kind"""
    from engine.chem.other_forms import OTHER_WORDS, other_form
    from engine.text.blocks import READ_FORMAT, count_junk, find_blocks, read_block

    by = lp_of_text(split_cleanup(lp)[0]).name  # also ``unknown``, for a text of an unnamed LP
    generated = given_text(text, file)
    blocks = find_blocks(generated)
    document: dict[str, Any] = {"format": "enriched", "blocks": len(blocks)}
    if bins is None and (other := other_form(generated)) is not None:  # its blocks are listed and not judged
        document |= {"format": other, **dict.fromkeys(("bad_blocks", "letters", "nonnumeric")), "kinds": {}}
        document["rows"] = [
            {"block": k, "text": block.content, "kinds": [], "junk_text": ""} for k, block in enumerate(blocks)
        ]
        unjudged = OTHER_WORDS[other]
    else:
        form = READ_FORMAT if bins is None else form_of(bins)
        readings = [read_block(block.content, form=form, lp=by, closed=block.closed) for block in blocks]
        count = count_junk(readings)
        document |= {"bad_blocks": count.not_triples, "letters": count.letters, "nonnumeric": count.nonnumeric}
        document["kinds"] = count.by_kind
        document["rows"] = [
            {"block": index, "text": reading.content, "kinds": list(reading.kinds), "junk_text": reading.junk_text}
            for index, reading in enumerate(readings)
        ]
        unjudged = "" if blocks else "no coordinate block found"
    if unjudged and not out.is_json:
        note(f"{unjudged}: nothing of this text could be judged")
    return out.show(document)


@command(app, "encode")
def encode_file(
    out: Output,
    file: str = words(..., "FILE", "an .sdf, .mol or .sdf.gz file with 3D coordinates"),
    least_decimals: Literal[0, 1, 2, 3, 4] = DECIMALS,
    bins: tuple[float, float] | None = BINS,
) -> int:
    """an SDF or MOL file as enriched text"""
    from engine.chem.enriched import encode
    from engine.chem.structure_files import read_molecules

    form = form_of(bins, least_decimals)
    encoded = [encode(mol, form) for mol in read_molecules(path_of(file))]
    if not out.is_json:
        write("\n".join(record.text for record in encoded))
        return 0
    records = [{"smiles": record.smiles, "enriched": record.text} for record in encoded]
    return out.show({**records[0], "records": records})  # a file is mostly one molecule: its keys stand at the top


@command(app, "decode")
def decode_text(
    out: Output,
    text: str = words(..., "TEXT", "enriched text, with or without its tags; - reads standard input"),
    sdf: str | None = option(None, "write the conformer as SDF", metavar="FILE"),
    xyz: str | None = option(None, "write the conformer as XYZ", metavar="FILE"),
    reader: ReaderName = READER,
    bins: tuple[float, float] | None = BINS,
) -> int:
    """enriched text as a molecule, and whether its stereo is right"""
    from engine.chem.enriched import as_decimals
    from engine.chem.stereo import judge_stereo
    from engine.chem.structure_files import to_sdf, to_xyz
    from engine.text.readers import decode_with

    decoded = decode_with(reader, as_decimals(given_text(text), form_of(bins)))
    for path, content in ((sdf, to_sdf([decoded.mol]) if sdf else ""), (xyz, to_xyz(decoded.mol) if xyz else "")):
        if path:
            with exporting(path_of(path)) as file:
                file.write(content.encode())
    stereo = judge_stereo(decoded.mol, decoded.mol)
    if out.is_json:
        judged = {"right": stereo.right, "sites": [asdict(site) for site in stereo.sites]}
        return out.show({"smiles": decoded.smiles, "coordinates": decoded.coordinates, "stereo": judged})
    atoms = zip(decoded.mol.GetAtoms(), decoded.numbers, strict=True)
    rows = [dict(zip(("atom", "x", "y", "z"), (atom.GetSymbol(), *numbers), strict=True)) for atom, numbers in atoms]
    return out.show({"smiles": decoded.smiles, "stereo": stereo.words().removeprefix("stereo: "), "atoms": rows})


def _reference_texts(
    smiles: list[str] | None, first: int | None, conformers: int, seed: int, form: NumberFormat
) -> list[str]:
    from engine.chem.molecule_sets import load_molecule_set
    from engine.chem.smiles import parse_smiles
    from engine.text.reference import reference_texts

    given = smiles or [entry.smiles for entry in load_molecule_set(limit=first)]
    molecules = [parse_smiles(one) for one in given]  # all of them, before the first is embedded
    texts: list[str] = []
    with StatusLine() as line:
        for number, molecule in enumerate(molecules):
            line.draw(f"embedding {number}/{len(molecules)}")
            texts += reference_texts(molecule, form, conformers=conformers, seed=seed)
    return texts


def _file_texts(path: str, form: NumberFormat) -> list[str]:
    from engine.chem.enriched import as_decimals, decode, encode
    from engine.chem.other_forms import OTHER_WORDS, other_form
    from engine.chem.structure_files import read_molecules
    from engine.text.check import answer_of

    if path.lower().endswith((".sdf", ".mol", ".sdf.gz", ".mol.gz")):
        return [encode(mol, form).text for mol in read_molecules(path_of(path))]
    texts: list[str] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        answer = answer_of(line)
        try:
            decode(as_decimals(answer, form))
        except EnrichedError as error:
            if not texts and path != "-":  # perhaps another kind of file: nothing of it is quoted
                other = other_form(answer)
                what = "does not begin with enriched text" if other is None else f"is {OTHER_WORDS[other]}"
                raise DriftscopeError(f"{shown(path)} {what}", "Write one molecule per line") from error
            why = str(error) if path == "-" else unquoted(error)
            raise DriftscopeError(f"line {number} of {shown(path)}: {why}") from error
        texts.append(answer)
    if not texts:
        raise DriftscopeError(f"{shown(path)} has no enriched text", "Write one molecule per line")
    return texts
