"""The chips of the strips' demo pages and of their tests."""

from __future__ import annotations

from pages._shared.components.token_strip import Chip

HOSTILE = (
    "<img src=x onerror=\"alert('piece')\">",
    "</span><script>alert('script')</script>",
    "\u202ebackwards",
    "zero\u200bwidth",
    "\ud800",
    "מולקולה",
    "\u0301\u0302\u0303",
    "javascript:alert(1)",
    "a\nb\tc\r\x00",
    "x" * 10_000,
    "",
)


def generated() -> list[Chip]:
    """Acetaldehyde under a position LP: the first block exact, the second with junk, the third cut."""
    chips: list[Chip] = []

    def add(piece: str, role: str, forced: bool, *, mark: str = "", block: int | None = None, note: str = "") -> None:
        start = chips[-1].end if chips and chips[-1].end is not None else 0
        end = start + len(piece)
        number = 1000 + 7 * len(chips)
        chips.append(Chip(piece, number, role, forced, mark, block, start, end, note, block))  # type: ignore[arg-type]

    add("[CONFORMER]", "COPY", True)
    for block, (atom, numbers) in enumerate(
        (("[C]", "-1.1672 0.1530 -0.0049"), ("[C]", "0.2571 -0.3415 0.8415"), ("=[O]", "1.2055 0.3884 -12.01"))
    ):
        add(atom, "COPY", True)
        add("<", "BOUNDARY", True, block=block)
        for axis, number in enumerate(numbers.split()):
            for char in ("," if axis else "") + number:
                add(char, "FREE", False, block=block)
        if block == 1:
            add("amen", "FREE", False, mark="junk", block=block, note="fills a position that the number did not need")
        if block == 2:
            add("4", "FREE", False, mark="cut", block=block, note="two more digits did not fit")
        add(">", "BOUNDARY", True, block=block)
    add("[/CONFORMER]", "COPY", True)
    return chips


def many(count: int) -> list[Chip]:
    row = generated()
    return [row[i % len(row)] for i in range(count)]
