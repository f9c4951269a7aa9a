"""Why the exact LP is faster than no LP on the live page's model, and how much of it a large model keeps: predicted."""

from __future__ import annotations

from collections.abc import Sequence

from engine.decode.cost import MACHINES, SHAPES, NamedShape, body_weights, predict, work_of
from engine.errors import DriftscopeError
from engine.evidence.advice.predicted import CPU
from engine.figures.words import percent
from engine.models.registry import load_registry
from engine.models.summary import body_sizes
from pages._live.session import Running
from pages._shared.errors import escape_markdown

LARGE = "qwen3-0.6b"


def speed_words(lanes: Sequence[Running]) -> str:
    """Markdown; empty unless a lane without an LP and one with the exact LP were written on a CPU by the same loop."""
    done = {lane.lp: lane for lane in lanes if lane.seen.state == "done" and lane.backend == "fast"}
    if not {"none", "exact"} <= done.keys():
        return ""
    model, opened = done["exact"].watch.lane.plan.model, done["exact"].watch.opened
    if opened is None or not opened.device.startswith("cpu"):
        return ""
    return why_faster(f"{model.alias}:{model.step}", opened.rows)


def why_faster(model: str, batch: int) -> str:
    """``model`` is ``alias:step``; empty where its shape cannot be read."""
    try:
        entry = load_registry().find(model)
        shape = NamedShape(entry.tokenizer, body_sizes(entry))
    except DriftscopeError:
        return ""
    machine = MACHINES[CPU]
    small = predict(shape.sizes, machine, work_of(shape, batch=batch))
    large = predict(SHAPES[LARGE].sizes, machine, work_of(SHAPES[LARGE], batch=batch))
    share = (small.off.seconds["head"] + small.off.seconds["sampler"]) / small.off.pass_s
    return (
        f"**Why is exact faster than none?** Without an LP {percent(share)} of a pass of {escape_markdown(model)} "
        f"({small.body / 1e6:,.1f} M weights in the layers) goes to the output head and the sampler, over "
        f"{shape.sizes.vocab_rows:,} tokens. The exact LP leaves {small.work.legal_rows:,} tokens, and forces about "
        f"{100 * small.work.forced:.0f} % without a pass. Predicted for a CPU, float32, batches of {batch}: "
        f"**{small.ratio:.1f}×** at this size, **{large.ratio:.1f}×** at Qwen3-0.6B's "
        f"({body_weights(SHAPES[LARGE].sizes) / 1e6:,.0f} M weights in the layers)."
    )
