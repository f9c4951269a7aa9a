"""``tokens``, ``template``, ``drift`` and ``junk``: text under a tokenizer, from a terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from engine.cli.options import add_bins_option, add_command, add_decimals_option, finite, form_of, whole
from engine.cli.output import StatusLine, emit_json, given_text, path_of, read_text, table, write
from engine.errors import EnrichedError, FileFormatError, TextError, shown, unquoted
from engine.figures.words import counted
from engine.records import NumberFormat

if TYPE_CHECKING:
    from engine.chem.other_forms import OtherForm
    from engine.text.template import Template
    from engine.text.tokenizers import TextTokenizer

MOST_ROWS = 200
"""Rows that a terminal table shows; ``--json`` has them all."""
MOST_WEIGHT = 1_000_000


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "tokens", run_tokens, "the tokens of a text")
    parser.add_argument("text", help="any text; - reads standard input, -- goes before a text that begins with -")
    _add_tokenizer(parser)
    parser = add_command(commands, "template", run_template, "a molecule's template and its roles")
    parser.add_argument("smiles")
    _add_tokenizer(parser)
    _add_placeholder(parser)
    parser.add_argument("--tags", action="store_true", help="with [CONFORMER] and [/CONFORMER] around the skeleton")
    parser = add_command(commands, "drift", run_drift, "drift of known coordinates, both signs")
    _add_tokenizer(parser)
    _add_placeholder(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--smiles", nargs="+", metavar="SMILES", help="reference conformers of these molecules")
    source.add_argument("--set", type=whole(2_000), metavar="N", help="the first N molecules of data/molecules.tsv")
    source.add_argument("--file", help="enriched text, one molecule per line (- is standard input), or an SDF file")
    parser.add_argument("--conformers", type=whole(1_000), help="conformers per molecule (default 1)")
    parser.add_argument("--seed", type=whole(2**31 - 1, 0), help="seed of the embedding (default 0)")
    add_decimals_option(parser)
    add_bins_option(parser)
    parser.add_argument("--fit", action="store_true", help="also fit a placeholder to these coordinates")
    parser.add_argument("--junk-weight", type=finite(MOST_WEIGHT, least=0), help="cost of a surplus token (default 1)")
    parser.add_argument("--cut-weight", type=finite(MOST_WEIGHT, least=0), help="cost of a missing token (default 1)")
    parser = add_command(commands, "junk", run_junk, "the coordinate blocks of a text, by kind")
    parser.add_argument("text", nargs="?", help="generated text; - reads standard input")
    parser.add_argument("--file", help="a file with generated text")
    parser.add_argument("--lp", default="none", help="the LP that made the text (default none)")
    add_bins_option(parser)


def run_tokens(args: argparse.Namespace) -> None:
    from engine.text.tokenizers import load_tokenizer

    tokens = load_tokenizer(args.tokenizer).tokens(given_text(args.text, None))
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
    from engine.text.tokenizers import load_tokenizer

    molecule = parse_smiles(args.smiles)
    tokenizer = load_tokenizer(args.tokenizer)
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
    from engine.text.placeholder import fit_placeholder
    from engine.text.tokenizers import load_tokenizer

    if args.file is not None and (args.conformers, args.seed) != (None, None):
        raise TextError(
            "--conformers and --seed are for SMILES, and --file brings its own coordinates", "Leave them out"
        )
    if not args.fit and (args.junk_weight, args.cut_weight) != (None, None):
        raise TextError("--junk-weight and --cut-weight weigh the fit", "Add --fit, or leave them out")
    form = form_of(args)
    tokenizer = load_tokenizer(args.tokenizer)
    texts = _file_texts(args.file, form) if args.file is not None else _reference_texts(args, form)
    summary = drift_summary(texts, tokenizer, args.placeholder)
    fitted = None
    if args.fit:
        weights = [1.0 if weight is None else weight for weight in (args.junk_weight, args.cut_weight)]
        fitted = fit_placeholder(texts, tokenizer, junk_weight=weights[0], cut_weight=weights[1])
    document: dict[str, Any] = {
        "tokenizer": args.tokenizer,
        "placeholder": args.placeholder,
        "texts": len(texts),
        **{
            name: getattr(summary, name)
            for name in ("blocks", "exact", "junk_prone", "cut", "mean_drift", "tokens_per_atom")
        },
        "histogram": {str(drift): count for drift, count in summary.histogram.items()},
    }
    if fitted is not None:
        names = ("placeholder", "free", "cost", "junk_weight", "cut_weight")
        costs = {str(free): cost for free, cost in fitted.costs.items()}
        document["fitted"] = {**{name: getattr(fitted, name) for name in names}, "costs": costs}
    if args.json:
        return emit_json(document)
    counts = [("exact", summary.exact), ("junk-prone", summary.junk_prone), ("cut", summary.cut)]
    write(table(("sign", "blocks", "share"), [(name, n, f"{summary.share(n):.1%}") for name, n in counts]))
    write(table(("drift", "blocks"), [(f"{drift:+d}", count) for drift, count in summary.histogram.items()]))
    needed = f"{summary.tokens_per_atom:.2f} tokens per atom"
    write(f"{summary.blocks} blocks of {len(texts)} texts against {args.placeholder} ({args.tokenizer}), {needed}")
    if fitted is not None:
        write(f"fitted placeholder {fitted.placeholder}: {fitted.free} FREE, cost {fitted.cost:.3f} tokens per block")
    return None


def run_junk(args: argparse.Namespace) -> None:
    from engine.chem.other_forms import other_form
    from engine.lp_records import lp_of_text, split_cleanup
    from engine.text.blocks import READ_FORMAT, count_junk, find_blocks, read_block

    lp = lp_of_text(split_cleanup(args.lp)[0]).name  # also ``unknown``, for a text of an unnamed LP
    text = given_text(args.text, args.file)
    if args.bins is None and (other := other_form(text)) is not None:
        return _write_other_form(other, text, is_json=args.json)
    form = READ_FORMAT if args.bins is None else form_of(args)
    blocks = find_blocks(text)
    readings = [read_block(block.content, form=form, lp=lp, closed=block.closed) for block in blocks]
    count = count_junk(readings)
    rows: list[dict[str, Any]] = [
        {"block": index, "text": reading.content, "kinds": list(reading.kinds), "junk_text": reading.junk_text}
        for index, reading in enumerate(readings)
    ]
    if args.json:
        counts = {"blocks": count.blocks, "bad_blocks": count.not_triples}
        reported = {"letters": count.letters, "nonnumeric": count.nonnumeric}
        return emit_json({"format": "enriched", **counts, **reported, "kinds": count.by_kind, "rows": rows})
    if not rows:
        return write("no coordinate block found: nothing of this text could be judged")
    bad = [row for row, reading in zip(rows, readings, strict=True) if not reading.is_clean_triple]
    if bad:
        lines = [(row["block"], repr(row["text"]), " ".join(row["kinds"]), repr(row["junk_text"])) for row in bad]
        write(table(("block", "text", "kinds", "junk"), lines[:MOST_ROWS]))
    write(f"{count.blocks} blocks, {count.not_triples} of them not a clean triple{_more(len(bad))}")
    return write(f"by the reports' counts: {count.letters} with letters, {count.nonnumeric} with anything non-numeric")


def _write_other_form(form: OtherForm, text: str, *, is_json: bool) -> None:
    """Blocks of another format are listed and not judged."""
    from engine.chem.other_forms import OTHER_WORDS
    from engine.text.blocks import find_blocks

    blocks = find_blocks(text)
    rows = [{"block": k, "text": block.content, "kinds": [], "junk_text": ""} for k, block in enumerate(blocks)]
    if is_json:
        counts = dict.fromkeys(("bad_blocks", "letters", "nonnumeric"))
        return emit_json({"format": form, "blocks": len(blocks), **counts, "kinds": {}, "rows": rows})
    return write(f"{OTHER_WORDS[form]}: {counted(len(blocks), 'block')}, not judged")


def _add_tokenizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tokenizer", required=True, metavar="T", help="qwen3, llama3 or a tokenizer folder")


def _add_placeholder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--placeholder", default="0.0000,0.0000,0.0000", metavar="P", help="default %(default)s")


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
    molecules = [parse_smiles(smiles) for smiles in given]  # all of them, before the first is embedded
    line = StatusLine()
    texts: list[str] = []
    for number, molecule in enumerate(molecules):
        line.draw(f"embedding {number}/{len(molecules)}")
        texts += reference_texts(molecule, form, conformers=args.conformers or 1, seed=args.seed or 0)
    line.clear()
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
                raise FileFormatError(f"{shown(path)} {what}", "Write one molecule per line") from error
            why = str(error) if path == "-" else unquoted(error)
            raise FileFormatError(f"line {number} of {shown(path)}: {why}") from error
        texts.append(answer)
    if not texts:
        raise FileFormatError(f"{shown(path)} has no enriched text", "Write one molecule per line")
    return texts


def _more(rows: int) -> str:
    return f"; the table shows the first {MOST_ROWS}, --json all" if rows > MOST_ROWS else ""
