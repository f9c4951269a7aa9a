"""RDKit's messages as text: collected per thread, kept off the terminal.

RDKit explains itself only in its log, which is one for the whole process; here each thread reads its own lines.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rdkit import rdBase

_TIMESTAMP = re.compile(r"^\[\d\d:\d\d:\d\d\]\s*")


class _ThreadLines(logging.Handler):
    """Collects RDKit's log lines per thread, so that concurrent parses do not read each other's errors."""

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        lines = getattr(self._local, "lines", None)
        if lines is not None:
            lines.append(_TIMESTAMP.sub("", record.getMessage()).strip())

    @contextmanager
    def collecting(self) -> Iterator[list[str]]:
        outer = getattr(self._local, "lines", None)
        self._local.lines = []
        try:
            yield self._local.lines
        finally:
            if outer is not None:
                outer.extend(self._local.lines)
            self._local.lines = outer


_LINES = _ThreadLines()
_LOG_LOCK = threading.Lock()


@contextmanager
def captured_log() -> Iterator[list[str]]:
    """RDKit's messages of this thread as a list of lines, kept off the terminal."""
    logger = logging.getLogger("rdkit")
    with _LOG_LOCK:
        if _LINES not in logger.handlers:  # once per process
            rdBase.LogToPythonLogger()
            logger.handlers[:] = [_LINES]  # RDKit's own handler writes to stderr
            logger.propagate = False
    with _LINES.collecting() as lines:
        yield lines
