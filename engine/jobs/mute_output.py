"""Mutes file descriptors for a while: redirecting Python's own streams does not reach native code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def muted_output(*numbers: int) -> Iterator[None]:
    """Output of native code and of child processes to these descriptors (1, 2) is discarded."""
    with ExitStack() as stack:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, nowhere)
        for number in numbers:
            kept = os.dup(number)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, number)
            os.dup2(nowhere, number)
        yield
