"""Trains what `demo-codes` is made of: a codebook with its decoder, then a language model that writes its codes.

    python -m tools.training.codes --corpus FOLDER --minutes 10 15 --out FOLDER

The codebook is an encoder that gives each token of a SMILES a code of eight bits (FSQ of two levels each), and a
decoder that gives places back. The encoder stays here: it only writes the texts of the training. What ships are
``demo-codes-decoder`` and ``demo-codes-final``. One core is enough; a codebook that is done is taken up.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from engine.chem.demo_decoder import HEADS
from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, prompt_of
from engine.chem.smiles import descriptor, read_text_order, split_smiles
from engine.models.shipped import ROWS, TAIL_ROW, Shipped
from engine.text.tokenizer_build import QWEN_CODES
from engine.text.tokenizers import load_tokenizer
from tools.terminal import ToolParser, run_tool
from tools.training.batches import TrainBatch
from tools.training.conformer_texts import UNITS_PER_ANG
from tools.training.corpus import read_corpus
from tools.training.network import Network, optimisers
from tools.training.shapes import INIT_STD, ModelShape, pack
from tools.training.text_frame import anchors_of, text_frame

log = logging.getLogger(__name__)

BITS, MOST_TOKENS, MOST_WRITTEN = 8, 218, 96
"""``MOST_WRITTEN``: tokens of the texts that the language model learns; of 12 heavy atoms few have more."""
SHAPE = ModelShape("qwen3", width=128, inner=176)
RATE, TEXTS_A_STEP = 2e-3, 32
Text = tuple[str, list[str], np.ndarray, np.ndarray]  # SMILES, its pieces, which are atoms, their places [pieces, 3]


class Coder(nn.Module):
    """Either half of the codebook: pieces and codes to places, or pieces and places to bits."""

    def __init__(self, pieces: int, given: int, made: int, width: int, layers: int) -> None:
        super().__init__()
        sizes = {"pieces": (pieces + 1, width), "positions": (MOST_TOKENS, width), "bits": (given, width)}
        for layer in range(layers):
            sizes |= {f"{layer}.qkv": (width, 3 * width), f"{layer}.out": (width, width)}
            sizes |= {f"{layer}.up": (width, 2 * width), f"{layer}.down": (2 * width, width)}
        sizes["place"] = (width, made)
        self.layers = layers
        self.weights = nn.ParameterDict(
            {name.replace(".", "_"): nn.Parameter(torch.randn(size) / size[0] ** 0.5) for name, size in sizes.items()}
        )
        with torch.no_grad():
            for name in ("pieces", "positions"):
                self.weights[name].copy_(torch.randn(sizes[name]) * 0.3)

    def forward(self, pieces: Tensor, given: Tensor, mask: Tensor) -> Tensor:
        """[B, T], [B, T, given], bool [B, T] to [B, T, made]."""
        weights = self.weights
        state = weights["pieces"][pieces] + given @ weights["bits"] + weights["positions"][: pieces.shape[1]]
        for layer in range(self.layers):
            qkv = (scaled(state) @ weights[f"{layer}_qkv"]).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], attn_mask=mask[:, None, None])
            state = state + seen.transpose(1, 2).flatten(2) @ weights[f"{layer}_out"]
            state = state + (scaled(state) @ weights[f"{layer}_up"]).relu() @ weights[f"{layer}_down"]
        places: Tensor = scaled(state) @ weights["place"]
        return places

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            name.replace("_", "."): value.detach().numpy().astype(np.float16) for name, value in self.weights.items()
        }

    def take(self, arrays: dict[str, np.ndarray]) -> None:
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(torch.from_numpy(arrays[name.replace("_", ".")].astype(np.float32)))


def scaled(state: Tensor) -> Tensor:
    return state * (state.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def waves(xyz: Tensor) -> Tensor:
    """Places as what an encoder can tell apart: themselves, and waves of some lengths. [..., 3] to [..., 27]."""
    angles = xyz[..., None, :] * (torch.tensor([0.5, 1.0, 2.0, 4.0])[:, None])
    return torch.cat((xyz[..., None, :], angles.sin(), angles.cos()), dim=-2).flatten(-2)


def misfit(made: Tensor, wanted: Tensor, atoms: Tensor) -> tuple[Tensor, Tensor]:
    """The loss, and the RMSD of each text [B] after the best rotation; distances of near atoms count by themselves."""
    count = atoms.sum(1, keepdim=True).float()
    left, right = (
        (xyz - (xyz * atoms[..., None]).sum(1, keepdim=True) / count[..., None]) * atoms[..., None]
        for xyz in (made, wanted)
    )
    with torch.no_grad():
        u, _, vh = torch.linalg.svd(left.transpose(1, 2) @ right)
        sign = torch.linalg.det(u @ vh)
        flip = torch.diag_embed(torch.stack((torch.ones_like(sign), torch.ones_like(sign), sign), dim=-1))
        turn = u @ flip @ vh
    square = (left @ turn - right).square().sum((1, 2)) / count[:, 0]
    pairs = atoms[:, :, None] & atoms[:, None]
    apart, asked = ((xyz[:, :, None] - xyz[:, None]).square().sum(-1).add(1e-4).sqrt() for xyz in (left, right))
    near = pairs & (asked < 3.0)
    return square.mean() + 4 * (apart - asked).square()[near].mean(), square.detach().sqrt()


def texts_of(corpus: Path) -> list[Text]:
    """All texts of a corpus, each in its own frame; a link is where the atom before it is."""
    texts: list[Text] = []
    for conformer in read_corpus(corpus):
        for smiles, order in conformer.texts:
            found = split_smiles(smiles)
            anchors = np.array([anchors_of(read_text_order(smiles))])
            xyz = text_frame(conformer.xyz[list(order)], np.array([len(order)]), anchors) / UNITS_PER_ANG
            is_atom = np.array([piece.is_atom for piece in found])
            places = xyz[np.maximum(np.cumsum(is_atom) - 1, 0)].astype(np.float32)
            pieces = [descriptor(piece.text) if piece.is_atom else piece.text for piece in found]
            texts.append((smiles, pieces, is_atom, places))
    return texts


def padded(group: Sequence[Text], known: dict[str, int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pieces, places, which are atoms, and which are there."""
    width = max(len(pieces) for _, pieces, _, _ in group)
    ids, xyz = torch.zeros((len(group), width), dtype=torch.long), torch.zeros((len(group), width, 3))
    atoms, mask = torch.zeros_like(ids, dtype=torch.bool), torch.zeros_like(ids, dtype=torch.bool)
    for row, (_, pieces, is_atom, places) in enumerate(group):
        ids[row, : len(pieces)] = torch.tensor([known.get(piece, 0) for piece in pieces])
        xyz[row, : len(pieces)], atoms[row, : len(pieces)] = torch.from_numpy(places), torch.from_numpy(is_atom)
        mask[row, : len(pieces)] = True
    return ids, xyz, atoms, mask


def shuffled(texts: Sequence[Text], seed: int) -> Iterator[list[Text]]:
    """Groups of texts of like length, without end."""
    random = np.random.default_rng(seed)
    while True:
        pool = [texts[index] for index in random.choice(len(texts), size=min(len(texts), 1_536), replace=False)]
        pool.sort(key=lambda text: len(text[1]))
        starts = range(0, len(pool) - TEXTS_A_STEP + 1, TEXTS_A_STEP)
        for start in random.permutation(np.array(starts)):
            yield pool[start : start + TEXTS_A_STEP]


def falling(share: float) -> float:
    """The rate's factor: up in a fiftieth, level, down in the last half."""
    return min(1.0, 50 * share + 0.02, 2 * (1 - share) + 0.01)


def train_codebook(
    encoder: Coder, decoder: Coder, texts: Sequence[Text], known: dict[str, int], minutes: float
) -> None:
    optimiser = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=RATE, weight_decay=0.01)
    began = time.monotonic()
    for step, group in enumerate(shuffled(texts, 0)):
        share = (time.monotonic() - began) / (60 * minutes)
        if share >= 1:
            break
        ids, xyz, atoms, mask = padded(group, known)
        soft = encoder(ids, waves(xyz), mask).tanh()
        loss, rmsd = misfit(decoder(ids, soft + (soft.sign() - soft).detach(), mask), xyz, atoms)
        optimiser.param_groups[0]["lr"] = RATE * falling(share)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], 1.0)
        optimiser.step()
        if step % 200 == 0:
            log.info(
                "codebook: %.0f %%, step %d, loss %.3f, RMSD %.3f", 100 * share, step, loss.item(), rmsd.mean().item()
            )


def codes_of(encoder: Coder, group: Sequence[Text], known: dict[str, int]) -> list[list[int]]:
    ids, xyz, _, mask = padded(group, known)
    with torch.inference_mode():
        bits = (encoder(ids, waves(xyz), mask) > 0).long()  # [B, T, bits]
    rows = (bits << torch.arange(BITS)).sum(-1).tolist()
    return [row[: len(text[1])] for row, text in zip(rows, group, strict=True)]


def train_writer(texts: Sequence[Text], codes: Sequence[Sequence[int]], minutes: float) -> Shipped:
    """The language model; codes weigh as much as what is copied."""
    tokenizer = load_tokenizer(QWEN_CODES)
    end = tokenizer.end_id or 0
    written = []
    for (smiles, pieces, _, _), row in zip(texts, codes, strict=True):
        answer = "".join(f"{piece}<{code}>" for piece, code in zip(pieces, row, strict=True))
        prompt = tokenizer.encode(prompt_of(smiles))
        written.append((len(prompt), [*prompt, *tokenizer.encode(f"{OPEN_TAG}{answer}{CLOSE_TAG}"), end]))
    first_code = tokenizer.id_of("<0>") or 0
    live = np.unique([id_ for _, ids in written for id_ in ids] + [first_code + code for code in range(1 << BITS)])
    network = Network(SHAPE, len(live), int(np.searchsorted(live, end)), tokenizer.vocab_size - len(live), 0)
    optims = optimisers(network, 3e-3, 0.01, "muon")
    began, tokens, random = time.monotonic(), 0, np.random.default_rng(0)
    local = [(prompt, np.searchsorted(live, ids)) for prompt, ids in written]
    step = 0
    while (share := (time.monotonic() - began) / (60 * minutes)) < 1:
        most = 40 if share < 0.15 else MOST_WRITTEN  # short texts first: copying is learnt there
        pool = [local[index] for index in random.permutation(len(local))[:1_024]]
        pool = sorted((text for text in pool if len(text[1]) <= most), key=lambda text: len(text[1]))
        for first in random.permutation(np.arange(0, len(pool) - TEXTS_A_STEP // 2, TEXTS_A_STEP)):
            group = pool[first : first + TEXTS_A_STEP]
            width = -(-max(len(ids) for _, ids in group) // 8) * 8 + 1
            block = np.full((len(group), width), int(np.searchsorted(live, end)), dtype=np.int64)
            weight, number = np.zeros((len(group), width), dtype=np.float32), np.zeros((len(group), width), dtype=bool)
            for index, (prompt, ids) in enumerate(group):
                block[index, : len(ids)], weight[index, prompt : len(ids)] = ids, 1.0
                number[index, : len(ids)] = (live[ids] >= first_code) & (live[ids] < first_code + (1 << BITS))
            weight[~number] *= 2.0 if share < 0.6 else 1.0
            weights, numbers = (torch.from_numpy(part[:, 1:].copy()) for part in (weight, number))
            batch = TrainBatch(torch.from_numpy(block), weights, numbers, tokens=0)
            losses = network.losses(network.body, batch, torch.float32)
            losses.total.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            for optimiser in optims:
                for parameters in optimiser.param_groups:
                    parameters["lr"] = 3e-3 * falling(min(share, 1.0))
                optimiser.step()
                optimiser.zero_grad()
            tokens, step = tokens + sum(len(ids) for _, ids in group), step + 1
            if step % 100 == 0:
                log.info("writer: %.0f %%, %.2f M tokens, structure %.4f, codes %.3f nat",
                         100 * share, tokens / 1e6, losses.structure.item(), losses.numbers.item())  # fmt: skip
    arrays = {name: value.detach().numpy() for name, value in network.weights().items()}
    rows, tail = arrays.pop(ROWS), arrays.pop(TAIL_ROW)
    body_arrays = {name: value.astype(np.float16) for name, value in arrays.items()}
    about = {"alias": "demo-codes", "tokens": tokens, "texts": len(written), "spent_s": 60 * minutes}
    shape = asdict(SHAPE)
    return Shipped(shape, QWEN_CODES, live.astype(np.int32), rows.astype(np.float16), tail.astype(np.float32), INIT_STD,
                   "demo-codes 0", body_arrays, about)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.codes", description="Train a codebook and a model of its codes.")
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--minutes", type=float, nargs=2, default=(10.0, 15.0), help="of the codebook, of the model")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    chosen = parser.parse_args(arguments)

    def train() -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        chosen.out.mkdir(parents=True, exist_ok=True)
        texts = texts_of(chosen.corpus)
        known = {piece: number for number, piece in enumerate(sorted({p for text in texts for p in text[1]}), start=1)}
        log.info("%d texts, %d pieces", len(texts), len(known))
        encoder, decoder = Coder(len(known), 27, BITS, 64, 4), Coder(len(known), BITS, 3, 64, 5)
        pieces = {"pieces": json.dumps([*known])}
        if (path := chosen.out / "encoder.safetensors").is_file():  # a codebook that is done
            encoder.take(load_file(path))
        else:
            train_codebook(encoder, decoder, texts, known, chosen.minutes[0])
            save_file(decoder.arrays(), chosen.out / "demo-codes-decoder.safetensors", pieces)
            save_file(encoder.arrays(), path, pieces)
        groups = [texts[start : start + 256] for start in range(0, len(texts), 256)]
        codes = [row for group in groups for row in codes_of(encoder, group, known)]
        shipped = train_writer(texts, codes, chosen.minutes[1])
        (chosen.out / "demo-codes-final.safetensors").write_bytes(pack(shipped))

    return run_tool(train)


if __name__ == "__main__":
    raise SystemExit(main())
