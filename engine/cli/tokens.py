"""``tokens``, ``template``, ``drift`` and ``junk``: text under a tokenizer, from a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.cli.main import emit_json
from engine.cli.output import given_text, json_option, path_of, progress, read_text, table, write
from engine.errors import EnrichedError, FileFormatError, TextError, shown
from engine.records import NumberFormat

if TYPE_CHECKING:
    from engine.text.placeholder import FittedPlaceholder
    from engine.text.template import Template
    from engine.text.tokenizers import TextTokenizer

MOST_ROWS = 200
"""Rows that a terminal table shows; ``--json`` has them all."""
MOST_CONFORMERS = 1_000
MOST_MOLECULES = 2_000
MOST_SEED = 2**31 - 1
MOST_WEIGHT = 1_000_000


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_tokens(commands)
    _add_template(commands)
    _add_drift(commands)
    _add_junk(commands)


def _add_tokens(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("tokens", parents=[json_option()], help="the tokens of a text")
    parser.add_argument("text", help="any text; - reads standard input, -- goes before a text that begins with -")
    _add_tokenizer(parser)
    parser.set_defaults(run=run_tokens)


def _add_template(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("template", parents=[json_option()], help="a molecule's template and its roles")
    parser.add_argument("smiles")
    _add_tokenizer(parser)
    _add_placeholder(parser)
    parser.add_argument("--tags", action="store_true", help="with [CONFORMER] and [/CONFORMER] around the skeleton")
    parser.set_defaults(run=run_template)


def _add_drift(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("drift", parents=[json_option()], help="drift of known coordinates, both signs")
    _add_tokenizer(parser)
    _add_placeholder(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--smiles", nargs="+", metavar="SMILES", help="reference conformers of these molecules")
    source.add_argument("--set", type=_molecules, metavar="N", help="the first N molecules of data/molecules.tsv")
    source.add_argument("--file", help="enriched text, one molecule a line (- is standard input), or an SDF file")
    parser.add_argument("--conformers", type=_conformers, help="conformers a molecule (default 1)")
    parser.add_argument("--seed", type=_seed, help="seed of the embedding (default 0)")
    parser.add_argument("--least-decimals", type=int, choices=(1, 2, 3, 4), default=4, help="1 drops trailing zeros")
    parser.add_argument("--fit", action="store_true", help="also fit a placeholder to these coordinates")
    parser.add_argument("--junk-weight", type=_weight, help="cost of a surplus token (default 1)")
    parser.add_argument("--cut-weight", type=_weight, help="cost of a missing token (default 1)")
    parser.set_defaults(run=run_drift)


def _add_junk(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("junk", parents=[json_option()], help="the coordinate blocks of a text, by kind")
    parser.add_argument("text", nargs="?", help="generated text; - reads standard input")
    parser.add_argument("--file", help="a file with generated text")
    parser.add_argument("--lp", default="none", help="the LP that made the text (default none)")
    parser.set_defaults(run=run_junk)


def run_tokens(args: argparse.Namespace) -> None:
    tokens = _tokenizer(args).tokens(given_text(args.text, None))
    if args.json:
        rows = [{"id": token.id, "piece": token.piece, "start": token.start, "end": token.end} for token in tokens]
        return emit_json({"tokenizer": args.tokenizer, "count": len(tokens), "tokens": rows})
    shown_rows = [(index, token.id, repr(token.piece), token.start, token.end) for index, token in enumerate(tokens)]
    write(table(("#", "id", "piece", "start", "end"), shown_rows[:MOST_ROWS]))
    return write(f"{len(tokens)} tokens ({args.tokenizer}){_more(len(tokens))}")


def run_template(args: argparse.Namespace) -> None:
    from engine.chem.enriched import skeleton_of
    from engine.chem.smiles import parse_smiles
    from engine.text.template import build_template

    molecule = parse_smiles(args.smiles)
    tokenizer = _tokenizer(args)
    template = build_template(skeleton_of(molecule), tokenizer, args.placeholder, tags=args.tags)
    rows = _template_rows(template, tokenizer)
    if args.json:
        document = {"smiles": molecule.smiles, "text": template.text, "tokenizer": args.tokenizer}
        counts = {"tokens": template.tokens, "free": template.free, "copy": template.copy}
        return emit_json({**document, **counts, "boundary": template.boundary, "rows": rows})
    columns = ("position", "id", "piece", "role", "block")
    lines = [[repr(row[name]) if name == "piece" else row[name] for name in columns] for row in rows[:MOST_ROWS]]
    write(table(columns, lines))
    counts_line = f"{template.tokens} tokens: {template.free} FREE, {template.copy} COPY"
    return write(f"{counts_line} ({template.boundary} of them BOUNDARY){_more(len(rows))}")


def run_drift(args: argparse.Namespace) -> None:
    from engine.text.drift import drift_summary

    _refuse_idle_options(args)
    form = NumberFormat(least_decimals=args.least_decimals)
    tokenizer = _tokenizer(args)
    texts = _file_texts(args.file, form) if args.file is not None else _reference_texts(args, form)
    summary = drift_summary(texts, tokenizer, args.placeholder)
    fitted = _fit(args, texts, tokenizer)
    document = {
        "tokenizer": args.tokenizer,
        "placeholder": args.placeholder,
        "texts": len(texts),
        "blocks": summary.blocks,
        "exact": summary.exact,
        "junk_prone": summary.junk_prone,
        "cut": summary.cut,
        "mean_drift": summary.mean_drift,
        "histogram": {str(drift): count for drift, count in summary.histogram.items()},
    }
    if fitted is not None:
        document["fitted"] = _fitted_document(fitted)
    if args.json:
        return emit_json(document)
    counts = [("exact", summary.exact), ("junk-prone", summary.junk_prone), ("cut", summary.cut)]
    write(table(("sign", "blocks", "share"), [(name, n, f"{summary.share(n):.1%}") for name, n in counts]))
    write(table(("drift", "blocks"), [(f"{drift:+d}", count) for drift, count in summary.histogram.items()]))
    write(f"{summary.blocks} blocks of {len(texts)} texts against {args.placeholder} ({args.tokenizer})")
    if fitted is not None:
        write(f"fitted placeholder {fitted.placeholder}: {fitted.free} FREE, cost {fitted.cost:.3f} tokens a block")
    return None


def run_junk(args: argparse.Namespace) -> None:
    from engine.text.blocks import count_junk, find_blocks, read_block

    lp = _known_lp(args.lp)
    found = find_blocks(given_text(args.text, args.file))
    readings = [read_block(block.content, lp=lp, closed=block.closed) for block in found]
    count = count_junk(readings)
    rows: list[dict[str, Any]] = [
        {"block": index, "text": reading.content, "kinds": list(reading.kinds), "junk_text": reading.junk_text}
        for index, reading in enumerate(readings)
    ]
    if args.json:
        counts = {"blocks": count.blocks, "bad_blocks": count.bad_blocks}
        reported = {"letters": count.letters, "nonnumeric": count.nonnumeric}
        return emit_json({**counts, **reported, "kinds": count.by_kind, "rows": rows})
    bad = [row for row, reading in zip(rows, readings, strict=True) if not reading.is_clean_triple]
    if bad:
        lines = [(row["block"], repr(row["text"]), " ".join(row["kinds"]), repr(row["junk_text"])) for row in bad]
        write(table(("block", "text", "kinds", "junk"), lines[:MOST_ROWS]))
    write(f"{count.blocks} blocks, {count.bad_blocks} of them no clean triple{_more(len(bad))}")
    return write(f"by the reports' counts: {count.letters} with letters, {count.nonnumeric} with anything non-numeric")


def _add_tokenizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tokenizer", required=True, metavar="T", help="qwen3, llama3 or a tokenizer folder")


def _add_placeholder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--placeholder", default="0.0000,0.0000,0.0000", metavar="P", help="default %(default)s")


def _conformers(text: str) -> int:
    return _whole_number(text, 1, MOST_CONFORMERS)


def _refuse_idle_options(args: argparse.Namespace) -> None:
    """An option that would do nothing is a mistake that its user should hear of."""
    if args.file is not None and (args.conformers, args.seed) != (None, None):
        raise TextError(
            "--conformers and --seed embed SMILES, and --file brings coordinates of its own", "Leave them out"
        )
    if not args.fit and (args.junk_weight, args.cut_weight) != (None, None):
        raise TextError("--junk-weight and --cut-weight weigh the fit", "Add --fit, or leave them out")


def _molecules(text: str) -> int:
    return _whole_number(text, 1, MOST_MOLECULES)


def _seed(text: str) -> int:
    return _whole_number(text, 0, MOST_SEED)


def _whole_number(text: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12 or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a whole number from {least} to {most:,}")
    return int(text)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= MOST_WEIGHT:  # so that NaN fails too
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a number from 0 to {MOST_WEIGHT:,}")
    return weight


def _tokenizer(args: argparse.Namespace) -> TextTokenizer:
    from engine.text.tokenizers import load_tokenizer

    return load_tokenizer(args.tokenizer)


def _known_lp(name: str) -> str:
    from engine.text.blocks import LP_NAMES

    if name not in LP_NAMES:
        raise TextError(f"there is no LP {shown(name)}", f"Use one of {', '.join(LP_NAMES)}")
    return name


def _template_rows(template: Template, tokenizer: TextTokenizer) -> list[dict[str, Any]]:
    return [
        {
            "position": position,
            "id": id_,
            "piece": tokenizer.piece(id_),
            "start": int(template.starts[position]),
            "end": int(template.ends[position]),
            "role": template.role(position),
            "block": None if template.block_of[position] < 0 else int(template.block_of[position]),
        }
        for position, id_ in enumerate(template.ids.tolist())
    ]


def _reference_texts(args: argparse.Namespace, form: NumberFormat) -> list[str]:
    from engine.chem.molecule_sets import load_molecule_set
    from engine.chem.smiles import parse_smiles
    from engine.text.reference import reference_texts

    given = args.smiles or [entry.smiles for entry in load_molecule_set(limit=args.set)]
    # A mistake in the last one is told before the first is embedded.
    molecules = [parse_smiles(smiles) for smiles in given]
    return [
        text
        for molecule in progress(molecules, "embedding")
        for text in reference_texts(molecule, form, conformers=args.conformers or 1, seed=args.seed or 0)
    ]


def _file_texts(path: str, form: NumberFormat) -> list[str]:
    if path.lower().endswith((".sdf", ".mol", ".sdf.gz", ".mol.gz")):
        from engine.chem.enriched import encode
        from engine.chem.files import read_molecules

        return [encode(mol, form).text for mol in read_molecules(path_of(path))]
    return _enriched_lines(read_text(path), path)


def _enriched_lines(text: str, path: str) -> list[str]:
    from engine.chem.enriched import decode
    from engine.text.check import answer_of

    texts = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        answer = answer_of(line)
        try:
            decode(answer)
        except EnrichedError as error:
            raise FileFormatError(f"line {number} of {shown(path)}: {error}") from error
        texts.append(answer)
    if not texts:
        raise FileFormatError(f"{shown(path)} has no enriched text", "Write one molecule a line")
    return texts


def _fit(args: argparse.Namespace, texts: Sequence[str], tokenizer: TextTokenizer) -> FittedPlaceholder | None:
    if not args.fit:
        return None
    from engine.text.placeholder import fit_placeholder

    junk_weight = 1.0 if args.junk_weight is None else args.junk_weight
    cut_weight = 1.0 if args.cut_weight is None else args.cut_weight
    return fit_placeholder(texts, tokenizer, junk_weight=junk_weight, cut_weight=cut_weight)


def _fitted_document(fitted: FittedPlaceholder) -> dict[str, Any]:
    return {
        "placeholder": fitted.placeholder,
        "free": fitted.free,
        "cost": fitted.cost,
        "junk_weight": fitted.junk_weight,
        "cut_weight": fitted.cut_weight,
        "costs": {str(free): cost for free, cost in fitted.costs.items()},
    }


def _more(rows: int) -> str:
    return f"; the table shows the first {MOST_ROWS}, --json all" if rows > MOST_ROWS else ""
