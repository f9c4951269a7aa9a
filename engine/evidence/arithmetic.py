"""Claims that the reports' own figures decide, or figures of the experiment `lost-third`: a function each, by id.

Each gives whether the claim holds, the figure to show with its unit, and the reason in words. Figures of the reports
that are no claims here stand as the reports have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

from engine.evidence.formula import Range, said

Figures = Mapping[str, Range]
"""Of claims by id, and of ``lost-third`` by such names as ``demo-qwen/fall/in all/cov_r``; KeyError where one lacks."""
Found = tuple[bool, float | None, str, str]
FIXED = "On demo-qwen-fixed (2.4 M weights in the layers, four decimals always)"
QWEN_CALLS, QWEN_ALIGNED, LLAMA_CALLS, LLAMA_ALIGNED = 48_440, 96_768, 20_672, 41_280  # report 003
QWEN_TOKENS, LLAMA_TOKENS, BATCHES = 38_195, 28_536, 64 / 32  # reports 002 and 001
SAMPLES_005 = 2 * 197_694  # twice as many as conformers


def mask_size(figures: Figures) -> Found:
    gigabytes = 32 * 2_000 * 152_000 / 1e9
    reason = f"32 rows x 2,000 positions x 152,000 tokens, one byte each: {said(gigabytes)} GB."
    return figures["001-mask-size"].meets(Range.exact(gigabytes)), gigabytes, "GB", reason


def retrying(figures: Figures) -> Found:
    plain_s, share, lp_s = 446.28, 99.4, 500.82  # report 002
    retried_s = plain_s / (share / 100)
    reason = f"{plain_s} s at {share} % passed make {said(retried_s)} s with retries, under the LP {lp_s} s. By report "
    return retried_s > lp_s, retried_s, "s", reason + "002's figures for Qwen; for LLaMA it would be."


def quotient_of(id_: str, one: Range, other: Range) -> Callable[[Figures], Found]:
    def compute(figures: Figures) -> Found:
        ends = [a / b for a, b in product((one.least, one.most), (other.least, other.most))]
        value = one.value / other.value
        reason = f"{said(one.value)} / {said(other.value)} = {said(value)}."
        return figures[id_].meets(Range(min(ends), value, max(ends))), value, "x", reason

    return compute


def decomposition(figures: Figures) -> Found:
    tokens, token_ms = figures["002-tokens-ratio"], figures["002-token-ms-ratio"]
    value = tokens.value * token_ms.value
    whole = Range(tokens.least * token_ms.least, value, tokens.most * token_ms.most)
    reason = f"{tokens.value} x {token_ms.value} = {said(value)}."
    return figures["002-decomposition"].meets(whole), value, "x", reason


def layers_and_steps(calls: int, aligned: int) -> tuple[float, float]:
    """A step calls attention once a layer, and each layer appends keys and values to its cache, but not at the first
    step of a batch: calls = layers x steps, aligned concatenations = 2 x layers x (steps - batches)."""
    layers = (calls - aligned / 2) / BATCHES
    return layers, calls / layers


def steps_of(calls: int, aligned: int) -> Callable[[Figures], Found]:
    def compute(figures: Figures) -> Found:
        layers, steps = layers_and_steps(calls, aligned)
        reason = (
            f"{calls:,} calls and {aligned:,} aligned concatenations in {BATCHES:g} batches are exactly {said(layers)} "
        )
        reason += f"layers times {said(steps)} steps of a batch of 32: steps are not tokens, and {calls:,} / 24 is "
        return calls % 24 == 0, steps, "steps", f"{reason}{'whole' if calls % 24 == 0 else 'no whole number'}."

    return compute


def calls_by_tokens(figures: Figures) -> Found:
    (qwen_layers, qwen), (llama_layers, llama) = (
        layers_and_steps(QWEN_CALLS, QWEN_ALIGNED),
        layers_and_steps(LLAMA_CALLS, LLAMA_ALIGNED),
    )
    calls, tokens = QWEN_CALLS / LLAMA_CALLS, QWEN_TOKENS / LLAMA_TOKENS
    reason = f"{said(calls)} times the calls are {said(qwen_layers / llama_layers)} times the layers and "
    reason += f"{said(qwen / llama)} times the steps, for {said(tokens)} times the tokens: junk adds nothing visible."
    return calls == tokens, qwen / llama, "x", reason


def quantisation(figures: Figures) -> Found:
    q4, fp16, gpt2 = figures["004-garbage-qwen-q4"], figures["004-garbage-qwen-fp16"], 28
    reason = f"{said(q4.value)} % with it and {said(fp16.value)} % without; GPT-2 has {gpt2} % in single precision."
    return q4.meets(fp16), None, "", reason


def loss(figures: Figures) -> Found:
    pairs = {name: (figures[f"005-{name}-lp"].value, figures[f"005-{name}-2"].value) for name in MEASURES}
    lost = 100 * (1 - pairs["cov-r"][0] / pairs["cov-r"][1])
    worse = all((under < without) == name.startswith("cov") for name, (under, without) in pairs.items())
    told = ", ".join(f"{name.upper()} {said(under)} for {said(without)}" for name, (under, without) in pairs.items())
    return worse, lost, "%", f"So its own table has it: {told}. {said(lost)} % of COV-R are lost."


MEASURES = ("cov-r", "cov-p", "mat-r", "mat-p")


def mended(figures: Figures) -> Found:
    others, endless = figures["005-mismatch-2"].value, figures["005-no-end-2"].value
    left = figures["005-mismatch-lp"].value + figures["005-no-end-lp"].value
    reason = f"So its own table has it: none is left of {said(others)} with another SMILES and {said(endless)} without "
    return left == 0 and others > 0 and endless > 0, None, "", f"{reason}an end."


def failures(figures: Figures) -> Found:
    failed = 100 * figures["005-failures-lp"].value / SAMPLES_005
    fall = figures["005-cov-r-2"].value - figures["005-cov-r-lp"].value
    reason = (
        f"Failed parses are {said(failed)} % of all samples, which fits a pass rate of about 100 %, and COV-R falls by "
    )
    reason += (
        f"{said(fall)} points. The means leave out molecules of which every sample failed, so that failures can even "
    )
    return failed < fall, failed, "% of all samples", f"{reason}raise them."


def mismatches(figures: Figures) -> Found:
    others = 100 * figures["005-mismatch-2"].value / SAMPLES_005
    fall = figures["005-cov-r-2"].value - figures["005-cov-r-lp"].value
    reason = (
        f"{said(others)} % of all samples. If the group compares texts, the LP forced in all others what the model "
    )
    reason += "writes by itself; if it compares molecules, their order is not known."
    return others < fall, others, "%", reason


# --- by the experiment `lost-third` -----------------------------------------------------------------------------------


def shift(figures: Figures) -> Found:
    steps = ("forcing the SMILES", "failed parses", "placeholder and cut", "in all")
    forcing, failed, cut, whole = (100 * figures[f"demo-qwen-fixed/fall/{step}/cov_r"].value for step in steps)
    reason = f"{FIXED} COV-R changes by {said(whole)} points under v4.3: by {said(forcing)} where the SMILES alone is "
    reason += (
        f"forced, by {said(failed)} with failed parses, and by {said(cut)} with the placeholder, which cuts numbers."
    )
    return abs(forcing) > abs(cut), forcing, "points", reason


def order(figures: Figures) -> Found:
    log_w, samples = (figures[f"demo-qwen-fixed/exact/cost/{name}"].value for name in ("log_w_tempered", "samples"))
    reason = (
        f"The exact LP forces the same SMILES, in the order of the prompt. {FIXED} that takes {said(log_w)} nat of a "
    )
    reason += f"sample's log-probability, over {said(samples)} samples: the model would have written it. Where a model "
    return log_w < -0.5, log_w, "nat", f"{reason}copies its prompt, the order that is forced is its own."


def hidden_state(figures: Figures) -> Found:
    canonical, other = (figures[f"{model}/reordered/cov_r"] for model in ("demo-qwen-canonical", "demo-qwen"))
    reason = "Forced in another atom order than the canonical one, the exact LP's COV-R changes by "
    reason += (
        f"{said(100 * canonical.value)} points with a model that learnt canonical order alone (demo-qwen-canonical), "
    )
    reason += (
        f"and by {said(100 * other.value)} with one that learnt random orders (demo-qwen; 2.4 M weights in the layers "
    )
    return canonical.most < 0, 100 * canonical.value, "points", f"{reason}each)."


def forced_probability(figures: Figures) -> Found:
    places = ("v4.3/cost/log_w_tempered", "v4.3/cost/forced", "exact/cost/log_w_tempered")
    v43, forced, exact = (figures[f"demo-qwen-fixed/{place}"].value for place in places)
    reason = (
        f"{FIXED} v4.3 takes {said(v43)} nat of a sample's log-probability, {said(forced)} of it at tokens that it "
    )
    return forced < exact - 5, v43, "nat", f"{reason}forces; the exact LP takes {said(exact)}."


def disagreement(figures: Figures) -> Found:
    found = figures["demo-qwen-fixed/v4.3/cost/rmsd"]
    reason = (
        f"{FIXED} under v4.3, Spearman's correlation of disagreement and RMSD within molecules is {said(found.value)}. "
    )
    return found.least > 0, found.value, "", f"{reason}Counted as going together where its 95 % interval lies above 0."


def soft_constraints(figures: Figures) -> Found:
    lanes = ("exact", "truncating", "v4.3")
    exact, truncating, v43 = (figures[f"demo-qwen-fixed/{lane}/beside none/cov_r"] for lane in lanes)
    reason = f"{FIXED}, beside no LP, COV-R changes by {said(100 * exact.value)} points under the exact LP, by "
    reason += f"{said(100 * truncating.value)} under the truncating one, and by {said(100 * v43.value)} under v4.3. "
    holds = max(exact.value, truncating.value) > v43.value and exact.least <= 0 <= exact.most
    return holds, 100 * exact.value, "points", f"{reason}The exact LP forces no number."


def failure_kinds(figures: Figures) -> Found:
    names = ("failed", "failed_most", "samples")
    failed, most, samples = (figures[f"demo-qwen-fixed/v4.3/200x20/{name}"].value for name in names)
    reason = (
        f"Of demo-qwen-fixed's {said(samples)} samples under v4.3 (2.4 M weights in the layers) {said(failed)} fail to "
    )
    return (
        2 * most > failed,
        100 * most / max(failed, 1),
        "%",
        f"{reason}parse, {said(most)} of them for the same reason.",
    )


ARITHMETIC: Mapping[str, Callable[[Figures], Found]] = {
    "001-mask-size": mask_size,
    "001-retrying-is-slower": retrying,
    "002-tokens-ratio": quotient_of("002-tokens-ratio", Range.exact(QWEN_TOKENS), Range.exact(LLAMA_TOKENS)),
    "002-token-ms-ratio": quotient_of("002-token-ms-ratio", Range(3.0225, 3.023, 3.0235), Range(1.1515, 1.152, 1.1525)),
    "002-decomposition": decomposition,
    "003-layers-qwen-whole": steps_of(QWEN_CALLS, QWEN_ALIGNED),
    "003-steps-llama": steps_of(LLAMA_CALLS, LLAMA_ALIGNED),
    "003-calls-by-tokens": calls_by_tokens,
    "004-quantisation-no-cause": quantisation,
    "005-loss": loss,
    "005-mended": mended,
    "005-failures-no-cause": failures,
    "005-mismatch-share": mismatches,
    "005-shift": shift,
    "005-order": order,
    "005-hidden-state": hidden_state,
    "005-forced-probability": forced_probability,
    "005-disagreement-rmsd": disagreement,
    "005-soft-constraints": soft_constraints,
    "005-failure-kinds": failure_kinds,
}
EXPERIMENT = frozenset(list(ARITHMETIC)[13:])
"""Those that need its results."""
