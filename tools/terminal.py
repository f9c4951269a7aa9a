"""What the tools share in a terminal: one-line errors with exit status 2, progress lines, JSON."""

from __future__ import annotations

import argparse
import json
import logging
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
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
    """Run it with logs on standard error: 0, 2 after an error meant for users, 130 after Ctrl-C or SIGTERM."""

    def stop(_signal: int, _frame: object) -> None:  # with SIGTERM a batch system ends a job's time
        raise KeyboardInterrupt

    root, handler = logging.getLogger(), logging.StreamHandler(sys.stderr)
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.INFO)
    before = signal.signal(signal.SIGTERM, stop)
    try:
        action()
    except (DriftscopeError, OSError) as error:
        sys.stderr.write(f"driftscope: {' '.join(str(error).split())}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("driftscope: stopped; the same command resumes from here\n")
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
        root.removeHandler(handler)
        root.setLevel(level)
    return 0


def emit_json(document: object) -> None:
    sys.stdout.write(f"{json.dumps(document, allow_nan=False)}\n")


def processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


class Progress:
    """A line every few seconds, and one at the end."""

    def __init__(self, label: str, total: int) -> None:
        self.label = label
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
            log.info("%s: %s of %s, %.0f a second%s", self.label, f"{self.done:,}", f"{self.total:,}", speed, left_s)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], bold: str = "") -> list[str]:
    cells = [tuple(head), *(tuple(f"**{cell}**" if row[0] == bold else cell for cell in row) for row in rows)]
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_text = [any(cell[:1].isalpha() for cell in column[1:]) for column in columns]
    rule = tuple("-" * width if text else "-" * (width - 1) + ":" for width, text in zip(widths, is_text, strict=True))
    return [
        "| "
        + " | ".join(
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(row, widths, is_text, strict=True)
        )
        + " |"
        for row in (cells[0], rule, *cells[1:])
    ]
