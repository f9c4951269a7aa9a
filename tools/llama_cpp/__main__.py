"""``python -m tools.llama_cpp``: our models in llama.cpp, logs of both in the store, and how far they agree.

Tables go to standard output, as in docs/parity.md. The logs are added to the store and compared there, so that the page
shows the same.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from engine.chem.molecule_sets import load_run_set
from engine.decode.log_recorder import ENGINE as OURS
from engine.errors import RunError
from engine.logits.causes import CERTAINTY_LABELS
from engine.logits.health import health
from engine.logits.ingest import LogNames, add_file
from engine.logits.parity import compare_logs, parity_sentences
from engine.models.loading import load_model
from engine.models.registry import load_registry
from engine.store.entries import Entry
from engine.store.store import Store
from tools.llama_cpp import package
from tools.llama_cpp.figures import HEAD, row
from tools.llama_cpp.running import ENGINE, TRANSFORMERS, ParityPlan, ParityResult, compared, molecules_of
from tools.llama_cpp.session import SETTINGS, LlamaSetting
from tools.terminal import ToolParser, markdown, run_tool

MODELS = ("demo-qwen", "demo-llama")
LABEL = "parity"
LATE_HEAD = ("read", "entries", "by the reports' rule", "by ours", "least magnitude", "largest", "likely cause", "")


def run(args: argparse.Namespace) -> None:
    if min(args.molecules, args.values, args.threads) < 1 or args.late < 0:
        raise RunError("numbers of molecules, values and threads start at 1", "Give other numbers")
    package("llama_cpp"), package("gguf")  # before a model is loaded
    settings = tuple(setting for setting in SETTINGS if not args.setting or setting.name in args.setting)
    if args.late and not any(setting.is_whole for setting in settings):
        raise RunError("reading late takes a setting in single precision", "Add --setting f32, or --late 0")
    molecules = molecules_of(args.smiles or load_run_set(args.molecules))
    store, registry = Store.open(args.store), load_registry()
    for name in args.model or MODELS:
        loaded = load_model(registry.find(name), "cpu")
        with ExitStack() as stack:
            aside = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="driftscope-parity-")))
            aside.mkdir(parents=True, exist_ok=True)
            file = aside / f"parity-{loaded.entry.name.replace(':', '-')}.jsonl.gz"
            plan = ParityPlan(settings, args.values, args.first, not args.without_ours, args.threads, args.late)
            result = compared(loaded, molecules, plan, file, aside)
            entries = add_file(store, file, LogNames(label=args.label))
        print("\n".join(report(store, result, settings, entries)))


def report(
    store: Store, result: ParityResult, settings: Sequence[LlamaSetting], entries: Sequence[Entry]
) -> Iterator[str]:
    """Lines of Markdown."""
    yield f"## {result.name}: {result.texts} texts by our engine, {result.passed} passed, {result.tokens:,} tokens"
    yield ""
    names = (TRANSFORMERS, *(setting.name for setting in settings))
    yield from markdown(HEAD, (row(name, result.agreed[name], result.written.get(name)) for name in names))
    yield ""
    yield f"Files: {', '.join(f'{name} {size / 2**20:.0f} MB' for name, size in result.bytes.items())}."
    yield ""
    ours = next((entry for entry in entries if entry.row["engine"] == OURS), None)
    for entry in entries:
        if entry.row["engine"] == ENGINE and ours is not None:
            yield f"- `{entry.id}`: {' '.join(parity_sentences(compare_logs(store, ours, entry)))}"
    rows = []
    for entry in entries:
        if entry.row["engine"].startswith(f"{ENGINE} read"):
            log = health(store, entry)
            worst = next(iter(log["findings"]), None)
            rows.append(
                (
                    log["engine"].removeprefix(f"{ENGINE} read "),
                    f"{log['entries']:,}",
                    f"{log['garbage_share']:.0%}",
                    f"{log['damaged_share']:.0%}",
                    *(f"{size:.3g}" if size is not None else "–" for size in (log["least"], log["largest"])),
                    worst["title"] if worst else "no damage",
                    CERTAINTY_LABELS[worst["certainty"]] if worst else "",
                )
            )
    if rows:
        yield ""
        yield from markdown(LATE_HEAD, rows)
    yield ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.llama_cpp", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--model", action="append", metavar="A", help="ALIAS or ALIAS:STEP; may be given several times (both demos)")
    add("smiles", nargs="*", metavar="SMILES", help="molecules, in place of --molecules")
    add("--molecules", type=int, default=3, metavar="N", help="the first N of data/heldout.smi (3)")
    add("--setting", action="append", choices=[setting.name for setting in SETTINGS], help="one setting (all)")
    add("--values", type=int, default=64, metavar="N", help="logged of each row: the first 10, and the commonest (64)")
    add("--first", action="store_true", help="log only the first --values, as `--log-logits N` does")
    add("--without-ours", action="store_true", help="log only llama.cpp")
    add("--late", type=int, default=4, metavar="N", help="processes that read the buffer too late; 0 for none (4)")
    add("--threads", type=int, default=1, metavar="N", help="of llama.cpp (1)")
    add("--label", default=LABEL, help="of the logs (parity)")
    add("--store", metavar="DIR", help="the logs' store (the app's store)")
    add("--keep", type=Path, metavar="DIR", help="keep the GGUF files and the log files there")
    args = parser.parse_args(arguments)
    return run_tool(lambda: run(args))


if __name__ == "__main__":
    raise SystemExit(main())
