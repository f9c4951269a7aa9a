"""``models``: the registered checkpoints, and the user's own registry: add a folder, take an entry out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from engine.cli import terminal as cli
from engine.cli.text import BINS, Bins
from engine.models.registry import TAGS, load_registry

app = cli.new_app()
COLUMNS = "alias step tokenizer family backend vocab_size parameters size_mb numbers fits card notes"


models_app = cli.new_app("models", "registered checkpoints: list, add, remove; `models MODEL` shows one")
app.add_typer(models_app)


@models_app.callback(invoke_without_command=True)
@cli.flat
def models(out: cli.Output, ctx: typer.Context) -> int:
    return 0 if ctx.invoked_subcommand is not None else _show(out, None)


@cli.command(models_app, "list")
def list_models(out: cli.Output, model: str | None = cli.words(None, "MODEL", "ALIAS or ALIAS:STEP (all)")) -> int:
    """the registered models

    Size, tokenizer, backend, the devices with room for them, their cards. `models add` adds a folder of yours.
    """
    return _show(out, model)


def _show(out: cli.Output, model: str | None) -> int:
    from engine.models.loading import summarise

    registry = load_registry()
    rows = [summarise(entry) for entry in ([registry.find(model)] if model else registry.entries)]
    out.show(rows, COLUMNS)
    for row in rows:
        for warning in row["warnings"]:
            cli.note(f"warning: {warning}")
        if problem := row["problem"]:
            name = f"{row['alias']}:{row['step']}"
            cli.note(problem if problem.startswith(name) else f"{name}: {problem}")
    return 2 if model and rows[0]["problem"] else 0


def decimals_of(text: str) -> Any:
    """``0-4`` -> (0, 4); ``4`` -> (4, 4)."""
    least, _, most = text.partition("-")
    if not (least.isascii() and least.isdigit() and (most or least).isdigit()):
        raise ValueError(f"{text!r} is not the least and the most decimals, such as 0-4")
    return int(least), int(most or least)


def tags_of(text: str) -> Any:
    tags = tuple(part.strip() for part in text.split(","))
    if len(tags) != len(TAGS) or not all(tags):
        raise ValueError(f"{text!r} is not what stands for {','.join(TAGS)}, with commas between")
    return tags


@cli.command(models_app, "add")
def add(
    out: cli.Output,
    folder: str = cli.words(..., "FOLDER", "a checkpoint: config.json, safetensors, a tokenizer with the tags"),
    alias: str = cli.option("", "its name (default: the folder's)"),
    step: str = cli.option("", "the checkpoint's (default: the folder's name where that is one, else final)"),
    sample: str | None = cli.option(None, "texts as it was trained on: lines, JSON, JSON lines", metavar="FILE"),
    decimals: Any = cli.option(None, "least and most that it writes (default: found)", of=decimals_of, metavar="0-4"),
    integer_digits: int | None = cli.option(None, "at most (default: found)", of=cli.most(6), metavar="N"),
    bins: Bins = BINS,
    descriptors: Literal["plain", "with-hydrogens"] | None = cli.option(None, "default: found in the sample"),
    tokenizer: str = cli.option("", "qwen3, llama3 or a folder (default: its own)"),
    tags: Any = cli.option(None, "its tokens for the four tags, with commas between", of=tags_of, metavar="A,B,C,D"),
    dtype: Literal["float32", "bfloat16", "float16"] | None = cli.option(None, "to run it in (default: float32)"),
    notes: str = cli.option("", "shown in lists"),
    dry_run: bool = cli.option(False, "look through the folder, and write nothing"),
) -> int:
    """register a checkpoint of yours

    Any causal language model of transformers. The tokenizer, the backend and the LPs that work are found from the
    folder, decimals and descriptors from a sample of its texts, and `generate`, `run` and the app have it at once. It
    is written to the file that DRIFTSCOPE_MODELS names, else to models.toml in the store.
    """
    from engine.jobs.adding import AddRequest, add_checkpoint
    from engine.models.loading import summarise
    from engine.text.text_form import sample_texts

    texts = sample_texts(Path(sample)) if sample else []
    numbers: dict[str, Any] = {
        "decimals": decimals,
        "integer_digits": integer_digits,
        "bins": " ".join(filter(None, bins or ())),
    }
    more: dict[str, Any] = {"descriptors": descriptors, "tags": tags or (), "dtype": dtype or "", "notes": notes}
    request = AddRequest(folder, alias, step, tokenizer, **numbers, **more)
    added = add_checkpoint(request, texts, dry_run=dry_run)
    row = summarise(added.entry)
    if out.is_json:
        out.show({**row, "lps": added.lps, "found": added.found})
    else:
        out.show([row], COLUMNS)
    for sentence in added.found:
        cli.note(sentence)
    cli.note(f"LPs that work: {', '.join(added.working) or 'none'}")
    for why, names in added.reasons.items():
        cli.note(f"not {', '.join(names)}: {why}")
    where = "nothing was written" if dry_run else f"{added.entry.name} is in {added.entry.source}"
    cli.note(where)
    return 0


@cli.command(models_app, "rm")
def remove(
    out: cli.Output, model: str = cli.words(..., "MODEL", "ALIAS or ALIAS:STEP, of those that were added")
) -> int:
    """take a checkpoint out of the registry; its folder stays"""
    from engine.models.registry_file import remove_entry

    entry = remove_entry(model)
    cli.note(f"{entry.name} is no longer in {entry.source}; its folder stays")
    return out.show({"alias": entry.alias, "step": entry.step}) if out.is_json else 0
