"""The words of every queue of the app: the jobs of its worker, and its tasks, which are commands."""

from __future__ import annotations

from typing import Literal

QueueState = Literal["waiting", "running", "stopping", "done", "failed", "stopped"]
ENDED: tuple[QueueState, ...] = ("done", "failed", "stopped")


def waiting_words(ahead: int) -> str:
    """``ahead`` counts what runs, too."""
    return "waiting: next" if ahead <= 1 else f"waiting: {ahead} ahead of you"
