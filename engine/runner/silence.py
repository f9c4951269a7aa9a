"""File descriptors that lead nowhere for a while: what Python's own streams are told of does not reach native code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def silent(*numbers: int) -> Iterator[None]:
    """What native code, and processes that are started here, write to these descriptors (1, 2) is lost."""
    with ExitStack() as stack:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, nowhere)
        for number in numbers:
            kept = os.dup(number)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, number)
            os.dup2(nowhere, number)
        yield
