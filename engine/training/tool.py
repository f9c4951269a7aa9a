"""What the tools of this package share on a terminal: one-line errors with exit status 2, and progress lines."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from engine.errors import DriftscopeError

log = logging.getLogger(__name__)

PROGRESS_S = 5.0


class ToolParser(argparse.ArgumentParser):
    """argparse, but a mistake is one line on standard error instead of the usage text."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {' '.join(message.split())} (see --help)\n")
        sys.exit(2)


def run_tool(action: Callable[[], None]) -> int:
    """Run it with logs on standard error: 0, 2 after an error meant for users, 130 after Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        action()
    except DriftscopeError as error:
        sys.stderr.write(f"driftscope: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("driftscope: stopped; the same command resumes from here\n")
        return 130
    return 0


class Progress:
    """A line every few seconds, and one at the end."""

    def __init__(self, what: str, total: int) -> None:
        self.what = what
        self.total = total
        self.started = self.shown_at = time.monotonic()
        self.done = self.made = 0

    def advance(self, count: int, *, was_there: bool = False) -> None:
        """``count`` more are done; those left by an earlier run do not count for the speed."""
        self.done += count
        self.made += 0 if was_there else count
        now = time.monotonic()
        if now - self.shown_at >= PROGRESS_S or self.done >= self.total:
            self.shown_at = now
            speed = self.made / (now - self.started) if now > self.started else 0.0
            left_s = f", {(self.total - self.done) / speed:,.0f} s left" if speed and self.done < self.total else ""
            log.info("%s: %s of %s, %.0f a second%s", self.what, f"{self.done:,}", f"{self.total:,}", speed, left_s)
