"""How phases of a generation look: one colour and one pattern each, on every page."""

from __future__ import annotations

from pages._shared.theme import Palette

PHASE_PATTERNS = {"template": "x", "prefill": "/", "constraint": "\\", "sample": ".", "sampling": "."}


def phase_colours(colours: Palette) -> dict[str, str]:
    """Blue: copied; orange: chosen freely; accent: the model's passes. A trace says sample, a run's row sampling."""
    return {
        "template": colours.copy,
        "prefill": colours.accent,
        "forward": colours.accent,
        "constraint": colours.boundary,
        "sample": colours.free,
        "sampling": colours.free,
    }
