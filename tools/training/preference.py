"""Trains a shipped model on preference pairs of its own run, for a stated time: DPO, one token against another.

    python -m engine run --smiles-file molecules.smi --model demo-qwen --lp shaped --keep-steps 512 --label pairs
    python -m engine export pairs --pairs pairs.jsonl
    python -m tools.training.preference --model demo-qwen:final --pairs pairs.jsonl --minutes 30 --out preferred

The loss of a pair is -log sigmoid(beta * (margin - margin of the start model)). A margin is the log of how much
likelier the chosen token is than the rejected one behind their prefix: a difference of two logits, without a softmax.
The start model is the reference, and is asked once. Added to it, times ``--nll``, is the mean negative log likelihood
of the tokens of the sample that the pairs are of: a text of the model's own, which keeps the copy of the molecule. With
``--nll 0`` it is DPO alone.

All pairs of a sample share one pass through the layers. One text in ``HELD_BACK`` is not trained on and is asked after
each pass over the others. The folder then has ``preferred.safetensors`` in the shipped form, ``models.toml`` that
registers it (``DRIFTSCOPE_MODELS``) and ``log.jsonl``. It stops by the clock and does not resume.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from engine.chem.enriched import prompt_of
from engine.comparing.array_files import write_bytes
from engine.errors import DriftscopeError
from engine.models.registry import load_registry
from engine.models.shipped import ROWS, TAIL_ROW, Shipped, unpack
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tools.terminal import ToolParser, emit_json, run_tool
from tools.training.network import Network, tail_logit
from tools.training.shapes import INIT_STD, ModelShape, pack

log = logging.getLogger(__name__)

HELD_BACK = 10
CLIP, WARM_STEPS = 1.0, 20


@dataclass(frozen=True, slots=True)
class Options:
    minutes: float = 30.0
    beta: float = 0.1
    nll: float = 0.2
    rate: float = 2e-4
    texts_a_step: int = 8
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PairedText:
    """A sample up to the last of its pairs, in the model's own numbering."""

    ids: Tensor  # int64 [T] prompt and answer
    first: int  # index of the answer's first token
    at: Tensor  # int64 [P] index of each pair's token
    chosen: Tensor  # int64 [P]
    rejected: Tensor  # int64 [P]


@dataclass(frozen=True, slots=True)
class Judged:
    """Of pairs that were asked: means."""

    loss: float
    improved: float  # share whose margin is larger than the start model's
    preferred: float  # share whose chosen token is the likelier one


def read_texts(path: Path, live_ids: np.ndarray, tokenizer: TextTokenizer) -> list[PairedText]:
    """Samples with a token that the model never learnt are left out, and named by number."""
    number = {id_: index for index, id_ in enumerate(live_ids.tolist())}
    texts, left_out = [], 0
    with path.open(encoding="utf-8") as file:
        for _, lines in groupby(map(json.loads, file), key=lambda line: (line["run_id"], line["sample_id"])):
            rows = list(lines)
            last = max(rows, key=lambda row: len(row["prompt_ids"]))
            ids = [*last["prompt_ids"], *last["chosen_ids"]]
            tokens = {*ids, *(row[name][0] for row in rows for name in ("chosen_ids", "rejected_ids"))}
            if not tokens <= number.keys():
                left_out += 1
                continue
            chosen, rejected = (
                torch.tensor([number[row[name][0]] for row in rows]) for name in ("chosen_ids", "rejected_ids")
            )
            local = torch.tensor([number[id_] for id_ in ids])
            first = len(tokenizer.encode(prompt_of(last["smiles"])))
            at = torch.tensor([len(row["prompt_ids"]) for row in rows])
            texts.append(PairedText(local, first, at, chosen, rejected))
    if left_out:
        log.warning("%s samples hold a token that the model never learnt", f"{left_out:,}")
    return texts


class Preferring:
    """A network that is trained on pairs, and the start model's margins."""

    def __init__(self, shipped: Shipped, texts: Sequence[PairedText], options: Options) -> None:
        self.options, self.texts = options, list(texts)
        tokenizer = load_tokenizer(shipped.tokenizer)
        live = shipped.live_ids.tolist()
        self.network = Network(
            ModelShape(**shipped.shape), len(live), live.index(tokenizer.end_id), tokenizer.vocab_size - len(live), 0
        )
        weights = {ROWS: shipped.live_rows, TAIL_ROW: shipped.tail_row, **shipped.body}
        self.network.load_weights({name: torch.from_numpy(value).float() for name, value in weights.items()})
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=options.rate, betas=(0.9, 0.98), weight_decay=0.0
        )
        with torch.inference_mode():
            self.before = [self.margins([text])[0] for text in self.texts]

    def margins(self, texts: Sequence[PairedText]) -> tuple[Tensor, Tensor]:
        """Of all pairs of these texts: [P] how much likelier the chosen token is; and the mean NLL of their answers."""
        width = max(len(text.ids) for text in texts)
        ids = torch.zeros((len(texts), width), dtype=torch.int64)
        is_answer = torch.zeros((len(texts), width - 1), dtype=torch.bool)
        for row, text in enumerate(texts):
            ids[row, : len(text.ids)] = text.ids
            is_answer[row, text.first - 1 : len(text.ids) - 1] = True
        hidden = self.network.body(ids[:, :-1], use_cache=False).last_hidden_state  # [B, T - 1, W]
        rows = self.network.rows
        row_of = torch.cat([torch.full_like(text.at, row) for row, text in enumerate(texts)])
        before_token = hidden[row_of, torch.cat([text.at for text in texts]) - 1]  # [P, W]
        chosen, rejected = (torch.cat([getattr(text, name) for text in texts]) for name in ("chosen", "rejected"))
        margins = (before_token * (rows[chosen] - rows[rejected])).sum(dim=1)
        of_answer = hidden[is_answer]  # [N, W]
        tail = tail_logit(of_answer, self.network.tail_row, INIT_STD, self.network.tail_count)
        logits = torch.cat((of_answer @ rows.T, tail[:, None]), dim=1)
        return margins, functional.cross_entropy(logits, ids[:, 1:][is_answer])

    def loss(self, margins: Tensor, before: Tensor) -> Tensor:
        return -functional.logsigmoid(self.options.beta * (margins - before)).mean()

    def judge(self, indices: Sequence[int]) -> Judged:
        with torch.inference_mode():
            margins = torch.cat([self.margins([self.texts[index]])[0] for index in indices])
        before = torch.cat([self.before[index] for index in indices])
        return Judged(
            float(self.loss(margins, before)),
            float((margins > before).float().mean()),
            float((margins > 0).float().mean()),
        )

    def step(self, indices: Sequence[int], rate: float) -> tuple[float, float]:
        """The losses: of the pairs, and of the answers."""
        margins, nll = self.margins([self.texts[index] for index in indices])
        loss = self.loss(margins, torch.cat([self.before[index] for index in indices]))
        (loss + self.options.nll * nll).backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad()
        return float(loss.detach()), float(nll.detach())

    def run(self) -> Iterator[dict[str, Any]]:
        """Train until the time is over. Yields a line for the log before the first pass and after each."""
        options, random = self.options, np.random.Generator(np.random.PCG64(self.options.seed))
        held = [index for index in range(len(self.texts)) if index % HELD_BACK == 0]
        trained = [index for index in range(len(self.texts)) if index % HELD_BACK]
        started, steps, passes, share = time.monotonic(), 0, 0, 0.0
        yield self._line(0.0, 0, held, [])
        while share < 1:
            losses: list[tuple[float, float]] = []
            order = random.permutation(trained).tolist()
            for start in range(0, len(order), options.texts_a_step):
                share = (time.monotonic() - started) / (60 * options.minutes)
                if share >= 1:
                    break
                rate = options.rate * min(1.0, (steps + 1) / WARM_STEPS) * (1 - share)
                losses.append(self.step(order[start : start + options.texts_a_step], rate))
                steps += 1
            passes += 1
            yield self._line(time.monotonic() - started, steps, held, losses)

    def _line(
        self, spent_s: float, steps: int, held: Sequence[int], losses: Sequence[tuple[float, float]]
    ) -> dict[str, Any]:
        judged = self.judge(held)
        line = {"spent_s": round(spent_s, 1), "steps": steps, "texts": steps * self.options.texts_a_step}
        if losses:
            line |= dict(zip(("pair_loss", "nll"), np.mean(losses, axis=0).round(4).tolist(), strict=True))
        of_held = {"loss": judged.loss, "improved": judged.improved, "preferred": judged.preferred}
        return line | {f"held_back_{name}": round(value, 4) for name, value in of_held.items()}


def shipped_again(shipped: Shipped, network: Network, about: dict[str, Any]) -> Shipped:
    """The start model with what the network has learnt."""
    weights = {name: value.detach().numpy() for name, value in network.weights().items()}
    return replace(
        shipped,
        live_rows=weights.pop(ROWS).astype(np.float16),
        tail_row=weights.pop(TAIL_ROW).astype(np.float32),
        body={name: value.astype(np.float16) for name, value in weights.items()},
        about={**shipped.about, **about},
    )


def write_model(folder: Path, shipped: Shipped, alias: str) -> None:
    """In the shipped form, with a registry of its own next to it."""
    path = folder / "preferred.safetensors"
    content = pack(shipped)
    write_bytes(path, content)
    entry = {
        "alias": alias,
        "step": "preferred",
        "shipped": str(path.resolve()),
        "sha256": hashlib.sha256(content).hexdigest(),
        "tokenizer": shipped.tokenizer,
        "decimals": [1, 4],
        "integer_digits": 3,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
    write_bytes(folder / "models.toml", ("[[model]]\n" + "\n".join(lines) + "\n").encode())


def main(argv: Sequence[str] | None = None) -> int:
    usual = Options()
    parser = ToolParser(prog="python -m tools.training.preference", description="Train a model on preference pairs.")
    add = parser.add_argument
    add("--model", required=True, help="a shipped model of the registry: the start and the reference")
    add("--pairs", required=True, type=Path, help="of `export RUN --pairs FILE`, of a run of this model")
    add("--out", required=True, type=Path, help="folder of the result")
    add("--minutes", type=float, default=usual.minutes, help="of training, by the clock (%(default)s)")
    add("--beta", type=float, default=usual.beta, help="of DPO (%(default)s)")
    add("--nll", type=float, default=usual.nll, help="weight of the samples' own likelihood (%(default)s)")
    add("--rate", type=float, default=usual.rate, help="the largest learning rate (%(default)s)")
    add("--texts-a-step", type=int, default=usual.texts_a_step, help="samples of a step (%(default)s)")
    add("--seed", type=int, default=usual.seed)
    add("--json", action="store_true", help="the last line of the log as JSON")
    args = parser.parse_args(argv)

    def train() -> None:
        entry = load_registry().find(args.model)
        if entry.shipped is None:
            raise DriftscopeError(f"{entry.name} is not in the shipped form", "Give one of the embedded models")
        shipped = unpack(entry.shipped, entry.sha256)
        texts = read_texts(args.pairs, shipped.live_ids, load_tokenizer(shipped.tokenizer))
        if len(texts) < 2:
            raise DriftscopeError(f"{args.pairs} has pairs of {len(texts)} samples", "Give those of more samples")
        options = Options(args.minutes, args.beta, args.nll, args.rate, args.texts_a_step, args.seed)
        preferring = Preferring(shipped, texts, options)
        args.out.mkdir(parents=True, exist_ok=True)
        pairs = sum(len(text.at) for text in texts)
        log.info("%s pairs of %s samples, %s threads", f"{pairs:,}", f"{len(texts):,}", torch.get_num_threads())
        line: dict[str, Any] = {}
        with (args.out / "log.jsonl").open("w", encoding="utf-8") as file:
            for line in preferring.run():
                file.write(json.dumps(line) + "\n")
                file.flush()
                log.info("%s", json.dumps(line))
        write_model(args.out, shipped_again(shipped, preferring.network, {"preferred": line}), entry.alias)
        if args.json:
            emit_json(line)

    return run_tool(train)


if __name__ == "__main__":
    raise SystemExit(main())
