"""The button that hands over what a page shows, as one HTML file; it is made when a reader asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engine.handover.collecting import bundle_of
from engine.handover.writing import page_of
from pages._kit.inspected import open_store
from pages._kit.table_files import file_button

HELP = (
    "One HTML file with these figures, their charts, the worst molecules in 3D and the commands that made them. "
    "It opens without Python and without a net, and takes some seconds to make."
)


def report_button(ids: Sequence[str], *, key: str, first: int | None = None) -> None:
    """Of runs (the control first), one sample (``RUN/NUMBER``), or traces. The sample ``first`` is before the worst."""
    file_button("Report (HTML)", partial(report, ids, first), "report.html", key=key, help=HELP)


def report(ids: Sequence[str], first: int | None = None) -> bytes:
    return page_of(bundle_of(open_store(), ids, first=first))
