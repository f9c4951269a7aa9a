"""``belief``, ``resolution``, ``alphabets``, ``logprobs``: computed for five questions, and kept in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from engine.cli import terminal as cli
from engine.cli.questions import WORKERS, worked, write_answer
from engine.errors import DriftscopeError
from engine.store.columns import rows_of

app = cli.new_app()


@cli.command(app, "belief")
def belief(
    io: cli.Io,
    progress: cli.Progress,
    of: str = cli.words(..., "OF", "RUN/SAMPLE; or a model, ALIAS or ALIAS:STEP"),
    cell: Literal["0.1", "0.01", "0.001"] = cli.option("0.01", "of RUN/SAMPLE: width of a cell of decimals, in Å"),
    texts: str | None = cli.option(None, "of a model: texts as it was trained on (held-out ones)", metavar="FILE"),
    device: str = cli.option("auto", "auto (a GPU if there is one), cpu, cuda, mps"),
    threads: int | None = cli.THREADS,
) -> int:
    """what a model believes of each number of a stored text; of a model: whether its spread is right

    What was computed is kept in the cache, for `ask drift_belief` and `ask drift_coverage`. A model is asked about 99
    held-out molecules in the frame of the demo models' training: give texts of another frame by --texts.
    """
    from engine.inspection.sample import inspect_sample
    from engine.jobs.number_beliefs import HELD_OUT, cover, prompted_texts, request_of
    from engine.jobs.scoring import generation_with
    from engine.models.devices import set_threads
    from engine.models.loading import load_model
    from engine.models.registry import load_registry
    from engine.questions import ask, sample_of
    from engine.questions.drift_belief import CELLS
    from engine.text.text_form import sample_texts

    set_threads(threads)
    if "/" in of:
        sample = sample_of(store := io.opened(), of)
        inspected = inspect_sample(store, sample.entry.id, sample.sample_id)
        request = request_of(inspected, decimals=CELLS[cell])
        request.compute(generation_with(request.question, load_model(request.entry, device)))
        if not io.is_json:
            return write_answer(store, "drift_belief", [of], {"belief_cell": cell})
        answered = ask(store, "drift_belief", [of], {"belief_cell": cell})
        return io.show(list(rows_of(answered.tables["main"])))
    entry = load_registry().find(of)
    given = prompted_texts(sample_texts(Path(texts))) if texts else ()
    source = Path(texts).name if texts else HELD_OUT
    with progress.reporting(is_quiet=io.is_json) as say:

        def seen(done: int, count: int) -> None:
            say(f"{done:,}/{count:,} texts read", now=done == count, work=done / count, done=done)

        cover(load_model(entry, device), given, source, seen)
        say(now=True, state="done", work=1.0)
    return io.show(list(rows_of(ask(io.opened(), "drift_coverage", [entry.name]).tables["main"])))


@cli.command(app, "resolution")
def resolution(io: cli.Io, progress: cli.Progress, run_id: str = cli.RUN_ID, workers: int | None = WORKERS) -> int:
    """how many decimals of a run's numbers its molecules need: usable texts truncated, and judged again

    What was computed is kept in the cache, for `ask drift_resolution`.
    """
    from engine.inspection.resolution import truncate_run
    from engine.questions import ask

    entry = worked(io, progress, "texts judged", truncate_run, io.opened(), run_id, workers=workers)
    return io.show(list(rows_of(ask(io.opened(), "drift_resolution", [entry.id]).tables["main"])))


@cli.command(app, "alphabets")
def alphabets(
    io: cli.Io,
    progress: cli.Progress,
    references: str = cli.words(..., "NAME", "a set of references"),
    bin_files: list[str] | None = cli.option(None, "further bins than the group's", metavar="FILE..."),
    molecules: int | None = cli.option(None, "the first N of the set", of=cli.most(1_000_000), metavar="N"),
    workers: int | None = WORKERS,
) -> int:
    """what an alphabet costs: conformers of a set written in decimals and bins, read back, and judged

    What was computed is kept in the cache, for `ask lab_alphabets`.
    """
    from engine.inspection.alphabets import write_references
    from engine.models.registry import bins_of
    from engine.questions import ask
    from engine.records import BinFormat

    names = [Path(file).stem for file in bin_files or ()]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DriftscopeError(f"two files of bins are named {min(twice)}", "Rename one")
    forms = dict(zip(names, map(bins_of, bin_files or ()), strict=True))
    if wrong := [name for name, form in forms.items() if not isinstance(form, BinFormat)]:
        raise DriftscopeError(f"{wrong[0]} is a file of codes, which only their encoder writes", "Give files of bins")
    how = {"most": molecules, "workers": workers}
    made = worked(io, progress, "texts judged", write_references, io.opened(), references, forms, **how)
    answered = ask(io.opened(), "lab_alphabets", [], {"alphabet_references": made.entry.id})
    return io.show(list(rows_of(answered.tables["main"])))


@cli.command(app, "logprobs")
def logprobs(
    io: cli.Io,
    progress: cli.Progress,
    ids: list[str] | None = cli.words(None, "RUN", "one or two, the control first"),
    streams: str | None = cli.option(None, "JSON lines in their place: FILE[:COLUMN], or two", metavar="FILES"),
    checkpoint: str | None = cli.option(None, "ALIAS:STEP (default: the run's own)"),
    files_lp: str | None = cli.option(None, "that acted where the files' tokens were written"),
    device: str = cli.option("auto", "auto (a GPU if there is one), cpu, cuda, mps"),
    threads: int | None = cli.THREADS,
) -> int:
    """why two log-probabilities of each token differ, in exact parts: a checkpoint reads the tokens once

    What was computed is kept in the cache, for `ask compare_logprobs` of the same runs or files and checkpoint.
    """
    from engine.models.devices import set_threads
    from engine.questions import compare_logprobs, entries_of, options_of, question_of

    set_threads(threads)
    store = io.opened()
    entries = entries_of(store, "run", ids or [])
    given = {"streams": streams, "checkpoint": checkpoint, "files_lp": files_lp}
    options = options_of(question_of("compare_logprobs"), store, entries, given)
    with progress.reporting(is_quiet=io.is_json) as say:
        tables = compare_logprobs.compute(store, entries, options, device)
        say(now=True, state="done", work=1.0)
    if not io.is_json:
        cli.write(compare_logprobs.answer(tables, options))
    return io.show(list(rows_of(tables["main"])))
