"""The junk examples of the reports: a block's content, the kinds that it is of, and its junk."""

from __future__ import annotations

from engine.records import Kind

QWEN_EXAMPLES: list[tuple[str, tuple[Kind, ...], str]] = [
    ("-2.139,1.459,0.3174 （", ("punctuation",), " （"),
    ('0.261,1.907,0.5204"1', ("punctuation",), '"1'),
    ("1.4261,-0.306,0.2251C", ("letters",), "C"),
    ("5.799,-0.2748,-0.9587abra", ("letters",), "abra"),
    ("6.9467,-1.369,0.8415amen", ("letters",), "amen"),
    ("3.175,-0.187,0.4142}2", ("punctuation",), "}2"),
    ("-2.901,0.624,0.0818c", ("letters",), "c"),
    ("3.601,0.363,0.3325 （C", ("letters", "punctuation"), " （C"),
    ("4.432,0.567,1.2637icineC", ("letters",), "icineC"),
    ("3.669,-3.1469,0.1561chedulers", ("letters",), "chedulers"),
    ("4.3411,-2.171,1.1178ensive", ("letters",), "ensive"),
]
LLAMA_EXAMPLES: list[tuple[str, tuple[Kind, ...], str]] = [
    ("3.0644,0.625,0.9841C", ("letters",), "C"),
    ("1.026,0.6438,-0.4296[c", ("letters", "punctuation"), "[c"),
    ("4.0752,-1.801,0.0004c", ("letters",), "c"),
]
