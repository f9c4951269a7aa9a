"""Packs a corpus for travel: small files from which ``packed`` makes token ids without RDKit or a tokenizer.

    python -m tools.training.packing --corpus FOLDER --out FOLDER

A text is cut at its numbers. What is between them (``>=[O]<``) comes from a dictionary of a few thousand segments, each
tokenised once before a plain number and once before a minus sign; prompts are stored as ids; coordinates once a
conformer, however many orders write them. Every part is read back and compared with the real tokenizers.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS, enriched_text, prompt_of, segments_of
from engine.chem.smiles import enriched_descriptors, read_text_order
from engine.chem.stereo import stereo_goals
from engine.comparing.array_files import Arrays, Meta, packed_bytes, write_bytes
from engine.errors import DriftscopeError, TokenizerError
from engine.paths import cache_folder
from engine.records import GROUP_UNIFORM
from engine.text.tokenizer_build import QWEN_BINS, WHOLE_NUMBERS
from engine.text.tokenizers import BUILT_IN, TextTokenizer, load_tokenizer, number_ids
from tools.terminal import Progress, ToolParser, run_tool
from tools.training.conformer_texts import UNITS_PER_ANG, ConformerTexts, answer_of
from tools.training.corpus import corpus_manifest, read_corpus
from tools.training.json_files import remove_stale, write_json
from tools.training.packed import MANIFEST, MOST_DECIMALS, PACKED_FORMAT, PackedPart, all_ids, ids_of, packed_xyz
from tools.training.text_frame import anchors_of

log = logging.getLogger(__name__)

PART_TEXTS = 50_000
MOST_PART_BYTES = 15 << 20
CHECKED_TEXTS = 100


def pack_corpus(
    corpus: Path,
    out: Path,
    tokenizers: Sequence[TextTokenizer],
    part_texts: int = PART_TEXTS,
    checked: int = CHECKED_TEXTS,
) -> Meta:
    """Pack a finished corpus; the manifest, which is written last."""
    if corpus.resolve() == out.resolve():
        raise DriftscopeError(f"{out} is the corpus itself", "Give --out another folder")
    about = {tokenizer.name: _about(tokenizer, slot) for slot, tokenizer in enumerate(tokenizers)}
    live = {  # whether they occur or not: all number tokens, the tags, the end
        name: {*all_ids(ids_of(entry["numbers"])), *entry["tags"].values(), entry["end"]}
        for name, entry in about.items()
    }
    source = corpus_manifest(corpus)
    (out / MANIFEST).unlink(missing_ok=True)  # while parts change there is no packed corpus
    parts: dict[str, Meta] = {}
    progress = Progress("packed texts", int(source["texts"]))
    written, part, texts = read_corpus(corpus), list[ConformerTexts](), 0
    for conformer in chain(written, [None]):
        if conformer is not None and (not part or texts + len(conformer.texts) <= part_texts):
            part.append(conformer)
            texts += len(conformer.texts)
            continue
        name = f"part-{len(parts):03d}.arrays"
        parts[name] = _write_part(out / name, part, tokenizers, about, live, checked)
        progress.advance(parts[name]["texts"])
        part, texts = ([], 0) if conformer is None else ([conformer], len(conformer.texts))
    manifest = {
        "format": PACKED_FORMAT,
        "corpus": {name: value for name, value in source.items() if name != "shards"},
        "parts": parts,
        "tokenizers": {
            tokenizer.name: {
                **about[tokenizer.name],
                "live": [[id_, tokenizer.piece(id_)] for id_ in sorted(live[tokenizer.name])],
            }
            for tokenizer in tokenizers
        },
    }
    remove_stale(out, ["part-*.arrays"], parts)
    write_json(out / MANIFEST, manifest)
    return manifest


def part_arrays(part: Sequence[ConformerTexts], tokenizers: Sequence[TextTokenizer]) -> tuple[Arrays, list[str]]:
    """The arrays of a part, and its dictionary of segments."""
    texts = [(smiles, order) for conformer in part for smiles, order in conformer.texts]
    numbered: dict[str, int] = {}
    segments = [numbered.setdefault(text, len(numbered)) for smiles, _ in texts for text in segments_of(smiles)]
    stereo = [stereo_atoms(smiles) for smiles, _ in texts]
    deciding = [bit for marks in stereo for bit in marks.deciding]
    atoms = np.array([len(conformer.xyz) for conformer in part], dtype=np.int64)
    others = [row for conformer in part for _, order in conformer.texts[1:] for row in order]
    arrays: Arrays = {
        "atoms": atoms.astype(np.uint16),  # [conformers]
        "texts": np.array([len(conformer.texts) for conformer in part], dtype=np.uint16),  # [conformers]
        "xyz": packed_xyz(np.concatenate([conformer.xyz for conformer in part]), atoms),
        "order": np.array(others, dtype=np.uint16),  # rows of each atom of each text but the canonical ones
        "segments": np.array(segments, dtype=np.uint32),  # [atoms + 1 of all texts] index into the dictionary
        "deciding": np.array(deciding, dtype=np.uint8),  # [atoms of all texts]
        "anchors": np.array([marks.anchors for marks in stereo], dtype=np.uint16),  # [texts, 3]
    }
    for slot, tokenizer in enumerate(tokenizers):
        prompts = tokenizer.encode_batch([prompt_of(smiles) for smiles, _ in texts])
        distinct, inverse = np.unique([id_ for ids in prompts for id_ in ids], return_inverse=True)
        tables: Arrays = {
            "known": distinct.astype(np.uint32),
            "prompts": inverse.astype(np.uint16 if len(distinct) <= 1 << 16 else np.uint32),
            "prompt_lengths": np.array([len(ids) for ids in prompts], dtype=np.uint16),
        }
        end, plain, signs = (
            [tokenizer.end_id or 0],
            list(numbered),
            [f"{text}-" if text.endswith("<") else text for text in numbered],
        )
        if tokenizer.name == QWEN_BINS:
            plain = signs = list(map(binned_segment, numbered))
        for name, given in (("plain", plain), ("signed", signs)):
            encoded = zip(tokenizer.encode_batch(given), numbered, strict=True)
            ended = [ids if text.endswith("<") else ids + end for ids, text in encoded]
            tables[name] = np.array([id_ for ids in ended for id_ in ids], dtype=np.uint32)
            tables[f"{name}_lengths"] = np.array([len(ids) for ids in ended], dtype=np.uint16)
        arrays.update({f"t{slot}.{name}": array for name, array in tables.items()})
    return arrays, list(numbered)


@dataclass(frozen=True, slots=True)
class StereoAtoms:
    """For each atom of a text whether its place, given those of the atoms before it, decides a hand or a side.

    That is the fourth atom written of a stereocentre and its neighbours, or of those that span a double bond. The
    anchors are the three before the first of these.
    """

    deciding: tuple[bool, ...]
    anchors: tuple[int, int, int]  # three times 0 where the text states no stereo


def stereo_atoms(smiles: str) -> StereoAtoms:
    mol = read_text_order(smiles)
    fourth = {sorted(goal.spanned_by)[3] for goal in stereo_goals(mol)}
    return StereoAtoms(tuple(atom in fourth for atom in range(mol.GetNumAtoms())), anchors_of(mol))


def full_text(conformer: ConformerTexts, text: int) -> str:
    smiles = conformer.texts[text][0]
    return f"{prompt_of(smiles)}{OPEN_TAG}{answer_of(conformer, text)}{CLOSE_TAG}"


def binned_segment(segment: str) -> str:
    """What is between numbers, as text of bins has it: ``[C]<`` is ``[C]``, ``>=[O]<`` is ``;=[O]``."""
    opened = segment.removesuffix("<")
    return f";{opened[1:]}" if opened.startswith(">") else opened


def full_binned_text(conformer: ConformerTexts, text: int) -> str:
    smiles, order = conformer.texts[text]
    rows = (conformer.xyz[list(order)] / UNITS_PER_ANG).tolist()
    numbers = tuple(
        (GROUP_UNIFORM.number_of(x), GROUP_UNIFORM.number_of(y), GROUP_UNIFORM.number_of(z)) for x, y, z in rows
    )
    answer = enriched_text(smiles, enriched_descriptors(smiles), numbers, GROUP_UNIFORM)
    return f"{prompt_of(smiles)}{OPEN_TAG}{answer}{CLOSE_TAG}"


def _numbers_about(tokenizer: TextTokenizer) -> dict[str, Any]:
    if tokenizer.name != QWEN_BINS:
        return asdict(number_ids(tokenizer))
    ids = [tokenizer.id_of(f"{number:03d}") for number in range(WHOLE_NUMBERS)]
    return {"ids": ids, "low": GROUP_UNIFORM.low_ang, "high": GROUP_UNIFORM.high_ang}


def _about(tokenizer: TextTokenizer, slot: int) -> dict[str, Any]:
    tags = {tag: tokenizer.id_of(tag) for tag in (*SMILES_TAGS, OPEN_TAG, CLOSE_TAG)}
    missing = [tag for tag, id_ in tags.items() if id_ is None]
    if missing or tokenizer.end_id is None:
        raise TokenizerError(
            f"{tokenizer!r} has no token {', '.join(missing) or 'that ends a text'}", "Use another one"
        )
    return {
        "slot": f"t{slot}",  # what its arrays begin with
        "vocab_size": tokenizer.vocab_size,
        "end": tokenizer.end_id,
        "tags": tags,
        "numbers": _numbers_about(tokenizer),
    }


def _write_part(
    path: Path,
    part: Sequence[ConformerTexts],
    tokenizers: Sequence[TextTokenizer],
    about: dict[str, dict[str, Any]],
    live: dict[str, set[int]],
    checked: int,
) -> Meta:
    arrays, segments = part_arrays(part, tokenizers)
    for tokenizer in tokenizers:
        entry = about[tokenizer.name]
        reader = PackedPart(arrays, entry["slot"], ids_of(entry["numbers"]), entry["end"])
        # Compare texts spread over the part, token by token.
        pairs = [(conformer, text) for conformer in part for text in range(len(conformer.texts))]
        rows = np.unique(np.linspace(0, len(pairs) - 1, min(checked, len(pairs)), dtype=np.int64))
        batch = reader.tokens(rows, MOST_DECIMALS)
        write = full_binned_text if tokenizer.name == QWEN_BINS else full_text
        wanted = tokenizer.encode_batch([write(*pairs[row]) for row in rows])
        for index, ids in enumerate(wanted):
            if batch.text(index)[0].tolist() != [*ids, entry["end"]]:
                conformer, text = pairs[rows[index]]
                problem = f"{tokenizer!r} cuts the text of {conformer.texts[text][0]} in a way that cannot be packed"
                raise TokenizerError(problem, "Use another tokenizer")
        for name in ("known", "plain", "signed"):
            live[tokenizer.name].update(np.unique(arrays[f"{entry['slot']}.{name}"]).tolist())
    texts = sum(len(conformer.texts) for conformer in part)
    content = packed_bytes({"texts": texts, "segments": segments}, arrays)
    if len(content) > MOST_PART_BYTES:
        raise DriftscopeError(f"{path.name} would have {len(content):,} bytes", "Give a smaller --part-texts")
    write_bytes(path, content)
    return {
        "texts": texts,
        "conformers": len(part),
        "atoms": sum(len(conformer.xyz) for conformer in part),
        "segments": len(segments),
        "bytes": len(content),
        "sizes": dict(Counter(str(len(conformer.xyz)) for conformer in part)),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.packing", description="Pack a corpus for the training machine.")
    add = parser.add_argument
    add("--corpus", type=Path, metavar="FOLDER", help="a finished corpus (corpus/ in the cache folder)")
    add("--out", type=Path, metavar="FOLDER", help="where it goes (packed/ in the cache folder)")
    add(
        "--tokenizers",
        nargs="+",
        default=list(BUILT_IN),
        metavar="T",
        help="qwen3, llama3, qwen3-bins or a folder (the first two)",
    )
    add("--part-texts", type=int, default=PART_TEXTS, metavar="N", help="texts a file (%(default)s)")
    chosen = parser.parse_args(arguments)

    def pack() -> None:
        corpus = chosen.corpus or cache_folder() / "corpus"
        out = chosen.out or cache_folder() / "packed"
        tokenizers = [load_tokenizer(name) for name in dict.fromkeys(chosen.tokenizers)]
        manifest = pack_corpus(corpus, out, tokenizers, chosen.part_texts)
        size = sum(part["bytes"] for part in manifest["parts"].values())
        log.info("%s: %s bytes in %s parts", out, f"{size:,}", len(manifest["parts"]))

    return run_tool(pack)


if __name__ == "__main__":
    raise SystemExit(main())
