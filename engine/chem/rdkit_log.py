"""RDKit's messages as text, kept off the terminal: its log is one for the process, here each thread reads its own."""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rdkit import rdBase

_MATCHING = threading.Lock()
_OF_THREAD = threading.local()


class _ThreadLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if (lines := getattr(_OF_THREAD, "lines", None)) is not None:
            lines.append(re.sub(r"^\[[\d:]{8}\]\s*", "", record.getMessage()).strip())


rdBase.LogToPythonLogger()
logging.getLogger("rdkit").handlers[:] = [_ThreadLines()]  # RDKit's own handler writes to stderr
logging.getLogger("rdkit").propagate = False


@contextmanager
def captured_log() -> Iterator[list[str]]:
    """RDKit's messages of this thread as a list of lines, kept off the terminal. Outer ones get those of inner ones."""
    outer = getattr(_OF_THREAD, "lines", None)
    lines: list[str] = []
    _OF_THREAD.lines = lines
    try:
        yield lines
    finally:
        if outer is not None:
            outer.extend(lines)
        _OF_THREAD.lines = outer


@contextmanager
def matching() -> Iterator[None]:
    """Around each search for a substructure: RDKit takes Ctrl-C for itself meanwhile, and would answer with a part. One
    thread at a time, since two at once leave its handler of that signal in place for good."""
    with _MATCHING, captured_log() as lines:
        yield
    if any("search was interrupted" in line for line in lines):
        signal.raise_signal(signal.SIGINT)
        raise KeyboardInterrupt
