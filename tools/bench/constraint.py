"""What a constraint costs by itself: one step of it, its masks, its compilation.

``python -m tools.bench.constraint`` takes a minute or two (``--quick``: seconds). No model takes part. Logits are
random; the rows' states are those of real programs, step after step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from engine.chem.molecule_sets import load_molecule_set, load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.body import LiveHead
from engine.decode.plan import Request, preset
from engine.decode.rows import MOST_RUN, forces_nothing_first, longest_run
from engine.decode.sampling import sample
from engine.lp.constraint import build_constraint
from engine.lp.driver import State, Tables
from engine.lp.table import NO_ID
from engine.lp_records import LPS
from engine.records import Molecule
from engine.text.tokenizers import load_tokenizer
from tools.bench._measure import machine, pin, show, spread

TOKENIZER, ROWS = "qwen3", 151_936
WARM_STEPS, COMPILED_ATOMS = 20, 30
STEP_MS = {32: 0.5, 128: 1.0}
COMPILE_MS = 0.3
Row = tuple[str, ...]


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


@torch.inference_mode()
def step_rows(molecules: Sequence[Molecule], steps: int) -> list[Row]:
    """What the fast backend does between the layers and the next step, and nothing else; and the whole mask.

    The head is one wide, so that its product costs next to nothing; its columns, biases and all behind are real. The
    mask of every row of the vocabulary is for other people's loops and diagnostics alone.
    """
    step_lines, mask_lines = list[Row](), list[Row]()
    for batch, most in STEP_MS.items():
        constraint = build_constraint("exact", load_tokenizer(TOKENIZER), ROWS)
        programs = [constraint.compile(molecule) for molecule in molecules[:batch]]
        generator = torch.Generator().manual_seed(0)
        head = LiveHead(torch.randn(ROWS, 1, generator=generator), constraint.automaton, programs)
        tables = Tables.of(constraint.automaton, programs)
        longest = longest_run([Request(number, number, (), program, 1) for number, program in enumerate(programs)])
        run = min(longest, MOST_RUN)
        is_settled = longest <= run and forces_nothing_first(constraint.automaton, programs)
        last = torch.tensor([len(program) - 1 for program in programs])

        def start(tables: Tables = tables) -> State:
            """Behind what is forced first, as the fast backend begins."""
            state = tables.start()
            while bool(((tokens := tables.forced_id(state)) != NO_ID).all()):
                state = tables.step(state, tokens)
            return state

        state, step_ms, mask_ms = start(), list[float](), list[float]()
        for number in range(WARM_STEPS + steps):
            hidden = torch.randn(len(programs), 1, generator=generator)
            numbers = torch.rand(len(programs), generator=generator, dtype=torch.float64)
            began = time.perf_counter()
            logits = head(hidden, state, tables.here(state))
            token = head.ids[sample(logits, preset("qwen3"), numbers)]
            forced = token.new_full(token.shape, NO_ID) if is_settled else tables.forced_id(state)
            _, _, after = tables.advance(state, torch.where(forced == NO_ID, token, forced), run)
            if number >= WARM_STEPS:
                step_ms.append((time.perf_counter() - began) * 1e3)
            if number % 10 == 0:
                mask_ms.append(timed(partial(tables.mask, state)))
            state = start() if bool((after.cell >= last).any()) else after
        step_lines.append((f"one constraint step, exact, batch {batch}", *spread(step_ms), f"<= {most:g} ms"))
        mask_lines.append((f"mask of the whole vocabulary, exact, batch {batch}", *spread(mask_ms[2:]), ""))
    return step_lines + mask_lines


def compile_rows(repeats: int) -> list[Row]:
    """Molecules of 30 atoms under each LP that compiles, when each has been compiled before."""
    every = (parse_smiles(entry.smiles) for entry in load_molecule_set())
    chosen = [molecule for molecule in every if molecule.heavy_atoms == COMPILED_ATOMS]
    tokenizer, rows = load_tokenizer(TOKENIZER), list[Row]()
    for lp in LPS:
        if lp != "none":
            constraint, again = build_constraint(lp, tokenizer, ROWS), list[float]()
            for molecule in chosen:
                constraint.compile(molecule)
                again.append(statistics.median(timed(partial(constraint.compile, molecule)) for _ in range(repeats)))
            rows.append((f"compile, {lp}, again", *spread(again), f"<= {COMPILE_MS} ms"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="What a constraint costs by itself.")
    parser.add_argument("--quick", action="store_true", help="few steps: whether it runs, no more")
    quick = parser.parse_args().quick
    pin(1 if quick else 2)
    print(f"{machine('torch', 'numpy')}\n")
    molecules = [molecule for molecule in map(parse_smiles, load_run_set(200)) if 10 <= molecule.heavy_atoms <= 18]
    head = "what|ms|least .. most|asked"
    show(f"One step of a constraint at V = {ROWS:,}", head, step_rows(molecules, 40 if quick else 400))
    show(f"Compiling a molecule of {COMPILED_ATOMS} heavy atoms, {TOKENIZER}", head, compile_rows(2 if quick else 9))


if __name__ == "__main__":
    main()
