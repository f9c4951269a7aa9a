"""``cost``: what a pass costs and what an LP gains, predicted from a model's shape and a machine's rates."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from engine.cli.options import MOST_BATCH, add_command, add_threads_option, set_threads, whole
from engine.cli.output import emit_json, table, write

if TYPE_CHECKING:
    from engine.decode.cost import Machine, NamedShape, Prediction

MOST_SEEN = 1_000_000


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "cost",
        run,
        "what an LP gains on a model, predicted before it is run",
        "Predicts the time of a pass with the exact LP and without one, from a model's shape and a machine's rates. "
        "Nothing is generated.",
    )
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--shape", metavar="NAME", help="such as qwen3-0.6b, llama-0.38b, demo-qwen")
    model.add_argument("--model", metavar="A", help="the shape of a registered model, ALIAS or ALIAS:STEP")
    machines = "here (this CPU, measured in some seconds), h200, h100, a100, epyc-1, xeon-1"
    parser.add_argument("--machine", default="here", metavar="M", help=machines)
    parser.add_argument("--batch-size", type=whole(MOST_BATCH), default=8, metavar="N", help="rows at once (8)")
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="a model's own; of a shape float32, on a GPU bfloat16",
    )
    parser.add_argument("--seen", type=whole(MOST_SEEN), default=300, metavar="N", help="tokens before a new one (300)")
    add_threads_option(parser)


def run(args: argparse.Namespace) -> None:
    from engine.decode.cost import predict, work_of

    shape, dtype = _shape(args)
    machine = _machine(args)
    dtype = args.dtype or dtype or ("bfloat16" if machine.is_gpu else "float32")
    work = work_of(shape, batch=args.batch_size, seen=args.seen, dtype=dtype)
    prediction = predict(shape.sizes, machine, work)
    if args.json:
        emit_json(prediction.as_json())
    else:
        _write(prediction, args.shape or args.model)


def _shape(args: argparse.Namespace) -> tuple[NamedShape, str]:
    from engine.decode.cost import named_shape

    if args.shape:
        return named_shape(args.shape), ""
    from engine.decode.cost import NamedShape
    from engine.models.registry import load_registry
    from engine.models.summary import body_sizes

    entry = load_registry().find(args.model)
    return NamedShape(entry.tokenizer, body_sizes(entry)), entry.dtype


def _machine(args: argparse.Namespace) -> Machine:
    from engine.decode.cost import named_machine

    if args.machine != "here":
        return named_machine(args.machine)
    from engine.decode.machine_rates import machine_here

    set_threads(args.threads)
    return machine_here()


def _write(prediction: Prediction, name: str) -> None:
    from engine.decode.cost import PARTS

    work, machine = prediction.work, prediction.machine
    write(f"Predicted, not measured: {name} ({prediction.body / 1e6:,.1f} M weights in the layers)")
    write(
        f"machine {machine.name} (rates: {machine.source}), batch {work.batch}, {work.dtype}, {work.seen} tokens seen"
    )
    rows = []
    for lp, cost in (("exact", prediction.on), ("none", prediction.off)):
        shares = [f"{seconds / cost.pass_s:.0%}" for seconds in (cost.seconds[part] for part in PARTS)]
        figures = [f"{1e3 * seconds:,.3g}" for seconds in (cost.pass_s, cost.roof_s)]
        rows.append([lp, f"{cost.tokens_per_s:,.0f}", f"{cost.tokens:.1f}", *figures, *shares])
    write(table(("LP", "tokens/s", "tokens per pass", "ms per pass", "roof ms", *PARTS), rows))
    write(f"With the exact LP {prediction.ratio:.2f}x the tokens per second of no LP (predicted)")
    for reason in prediction.assumed:
        write(f"assumed: {reason}")
