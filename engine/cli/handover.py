"""``bundle``: one HTML file for somebody without Python."""

from __future__ import annotations

from pathlib import Path

from engine.cli import terminal as cli
from engine.errors import DriftscopeError
from engine.user_files import check_output

app = cli.new_app()


@cli.command(app, "bundle")
def bundle(
    io: cli.Io,
    ids: list[str] | None = cli.words(None, "ID", "a run, a sample (RUN/NUMBER) or a trace; more with --compare"),
    out: str | None = cli.option(None, "the file, a name that ends in .html", metavar="FILE"),
    compare: bool = cli.option(False, "runs with a control, or two traces; the first is the control"),
    molecules: int = cli.option(24, "the worst N, as many as fit", of=cli.most(1_000, 0)),
    first: int | None = cli.option(None, "the sample of this number before the worst", of=cli.most(10**9, 0)),
    gallery: str | None = cli.option(None, "in place of ID: twelve files into this folder", metavar="FOLDER"),
) -> int:
    """one HTML file to hand over: answers, charts and the worst molecules in 3D, without Python and without a net

    It opens from disk, and its policy forbids every request. Figures are those of `ask`, to the digit, with the
    commands that made them. It has at most 1.5 MB: what does not fit is left out, and the file says how much. A gallery
    has a file for each finding that the reports' conclusions rest on, made of the runs that ship.
    """
    from engine.handover.collecting import bundle_of
    from engine.handover.gallery import write_gallery
    from engine.handover.writing import write_bundle

    cli.one_of("--out or --gallery", out, gallery, hint="`bundle RUN --out report.html`")
    if out is None:
        if ids or compare or first is not None:
            raise DriftscopeError("a gallery is of what ships: it has no ID, --compare or --first", "Leave them out")
        return io.show(write_gallery(Path(gallery or "").expanduser()))
    if not ids or compare != (len(ids) > 1):
        fix = "Give the control first, then the tests" if compare else "Give one ID, or more with --compare"
        raise DriftscopeError(f"a bundle is of one ID, and --compare of two or more, not {len(ids or ())}", fix)
    path = Path(out).expanduser()
    check_output(path, ".html")
    size = write_bundle(bundle_of(io.opened(), ids, molecules=molecules, first=first), path)
    return io.show({"bytes": size, "file": str(path)})
