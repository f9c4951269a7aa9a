"""The figures of one trace that a comparison sets side by side. What a trace does not know is None."""

from __future__ import annotations

from collections.abc import Iterator

from engine.figures.statistics import quotient
from engine.profile.stored_trace import COMPUTE, StoredTrace, Totals

COUNTED = {
    "launch": "kernel launches",
    "sync": "waits for the device",
    "memcpy": "copies between memories",
    "copy": "copy kernels",
    "concat": "concatenations",
    "attention": "attention calls",
}
RUNTIME = ("launch", "sync")
"""Families of calls into the runtime; the others are work."""


Figure = tuple[str, str, str, float | None]
"""Its name, what it is, its unit (µs, % or empty for a count), and its value."""


def figures_of(trace: StoredTrace) -> list[Figure]:
    """The same names in the same order for every trace."""
    return [*_work_figures(trace), *_device_figures(trace), *_call_figures(trace), *_join_figures(trace)]


def _work_figures(trace: StoredTrace) -> Iterator[Figure]:
    work, compute = Totals.of(trace.work), trace.totals(*COMPUTE)
    span, tokens, samples, passes = map(trace.known, ("span_us", "tokens", "samples", "forward_passes"))
    yield "span_us", "span from first to last event", "µs", span
    yield "work_us", "work, summed", "µs", work.total_us
    yield "work_calls", "operations of work", "", work.calls
    yield "tokens", "tokens covered", "", tokens
    yield "samples", "samples covered", "", samples
    yield "forward_passes", "forward passes covered", "", passes
    yield "work_us_a_token", "work per token", "µs", quotient(work.total_us, tokens)
    yield "work_us_a_sample", "work per sample", "µs", quotient(work.total_us, samples)
    yield "work_us_a_pass", "work per forward pass", "µs", quotient(work.total_us, passes)
    compute_us = compute.total_us if trace.is_whole else None
    yield "compute_share", "attention and gemm, share of work", "%", quotient(compute_us, work.total_us, 100)
    yield "compute_span_share", "attention and gemm, share of span", "%", quotient(compute_us, span, 100)


def _device_figures(trace: StoredTrace) -> Iterator[Figure]:
    busy, idle, gaps = map(trace.known, ("busy_us", "idle_us", "gaps"))
    active = None if busy is None or idle is None else busy + idle
    yield "idle_share", "device idle between first and last work", "%", quotient(idle, active, 100)
    yield "gaps", "idle gaps of a device", "", gaps
    yield "gap_us", "mean idle gap", "µs", quotient(idle, gaps)
    overlap = quotient(trace.known("overlap_us"), busy, 100)
    yield "overlap_share", "share of busy time with two operations or more", "%", overlap
    yield "copy_overlap_us", "copy and compute at once", "µs", trace.known("copy_overlap_us")


def _call_figures(trace: StoredTrace) -> Iterator[Figure]:
    has_calls = any(row["side"] == "call" for row in trace.rows)
    unknown = () if has_calls else RUNTIME if trace.work_side == "device" else (*RUNTIME, "memcpy")
    tokens, passes = trace.known("tokens"), trace.known("forward_passes")
    for family, label in COUNTED.items():
        totals = trace.totals(family, side="call" if family in RUNTIME else None)
        is_known = family not in unknown and (trace.is_whole or totals.calls > 0)
        calls = totals.calls if is_known else None
        yield f"{family}_calls", label, "", calls
        yield f"{family}_us", f"{label}: time", "µs", totals.total_us if is_known else None
        yield f"{family}_mean_us", f"{label}: mean time", "µs", totals.mean_us if is_known else None
        yield f"{family}_a_token", f"{label} per token", "", quotient(calls, tokens)
        yield f"{family}_a_pass", f"{label} per forward pass", "", quotient(calls, passes)


def _join_figures(trace: StoredTrace) -> Iterator[Figure]:
    launched = sum(row["launched"] or 0 for row in trace.work)
    delay = sum(row["delay_us"] or 0.0 for row in trace.work)
    yield "delay_us", "mean delay from launch to kernel", "µs", quotient(delay, launched)
    other = trace.known("other_share")
    yield "other_share", "share of work in no family", "%", None if other is None else 100 * other
