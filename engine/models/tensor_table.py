"""The tensors that a config.json asks for, as one table: names, shapes and the settings that they follow from.

Compared with the headers of the weights before anything is loaded. Names are those of ``transformers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.errors import ModelError, shown
from engine.models.headers import Header
from engine.models.layout import HEAD, ROWS

FIX_PAIR = "Use config and weights of one checkpoint"
FLOATS = ("F64", "F32", "F16", "BF16")

WIDTH, INNER, HEAD_DIM = "hidden_size", "intermediate_size", "head_dim"
QUERY, KEYS = "num_attention_heads * head_dim", "num_key_value_heads * head_dim"
MATRICES = {
    "self_attn.q_proj": (QUERY, WIDTH),
    "self_attn.k_proj": (KEYS, WIDTH),
    "self_attn.v_proj": (KEYS, WIDTH),
    "self_attn.o_proj": (WIDTH, QUERY),
    "mlp.gate_proj": (INNER, WIDTH),
    "mlp.up_proj": (INNER, WIDTH),
    "mlp.down_proj": (WIDTH, INNER),
}
"""Of each layer; biases have the first of the two sizes."""
NORMS = {"input_layernorm": WIDTH, "post_attention_layernorm": WIDTH}
QK_NORMS = {"self_attn.q_norm": HEAD_DIM, "self_attn.k_norm": HEAD_DIM}


@dataclass(frozen=True, slots=True)
class BodySizes:
    """The sizes and switches of config.json that decide which tensors there are."""

    model_type: str
    vocab_rows: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    is_tied: bool
    has_attention_bias: bool
    has_mlp_bias: bool


@dataclass(frozen=True, slots=True)
class TensorRule:
    """One tensor: its shape and the settings that give it."""

    shape: tuple[int, ...]
    settings: str
    is_needed: bool | None = True  # None: it may be there or not
    switch: str = ""  # the setting that decides on that


def expected_tensors(sizes: BodySizes) -> Iterator[tuple[str, TensorRule]]:
    """All tensors that the architecture knows, by name. Of a tied pair one is enough; ``check_tensors`` asks for it."""
    number = {
        WIDTH: sizes.width,
        INNER: sizes.inner,
        HEAD_DIM: sizes.head_dim,
        QUERY: sizes.heads * sizes.head_dim,
        KEYS: sizes.kv_heads * sizes.head_dim,
    }
    rows = (sizes.vocab_rows, sizes.width)
    tied = f"tie_word_embeddings {sizes.is_tied}".lower()
    for name in (ROWS, HEAD):
        yield name, TensorRule(rows, "vocab_size, hidden_size", None if sizes.is_tied else True, tied)
    yield "model.norm.weight", TensorRule((sizes.width,), WIDTH)
    biases = {"self_attn": ("attention_bias", sizes.has_attention_bias)}
    if sizes.model_type == "llama":  # Qwen3 has none there, whatever its config says
        biases["mlp"] = ("mlp_bias", sizes.has_mlp_bias)
    norms = NORMS | (QK_NORMS if sizes.model_type == "qwen3" else {})
    for layer in range(sizes.layers):
        start = f"model.layers.{layer}."
        for name, settings in MATRICES.items():
            shape = tuple(number[setting] for setting in settings)
            yield f"{start}{name}.weight", TensorRule(shape, ", ".join(settings))
            if bias := biases.get(name.partition(".")[0]):
                switch, is_on = bias
                rule = TensorRule(shape[:1], settings[0], is_on, f"{switch} {is_on}".lower())
                yield f"{start}{name}.bias", rule
        for name, setting in norms.items():
            yield f"{start}{name}.weight", TensorRule((number[setting],), setting)


def check_tensors(sizes: BodySizes, header: Header, where: str) -> None:
    """The weights are those that config.json asks for: no tensor too few or too many, each of its shape."""
    layers = {name.split(".")[2] for name in header.tensors if name.startswith("model.layers.")}
    if len(layers) != sizes.layers:  # first, since a table of a billion layers would not end
        raise ModelError(
            f"{where} has weights of {len(layers)} layers, config.json says num_hidden_layers {sizes.layers}", FIX_PAIR
        )
    if len(header.tensors) < len(MATRICES) * sizes.layers:  # nor should one of many more tensors than there are
        raise ModelError(f"{where} has {len(header.tensors):,} tensors for {sizes.layers:,} layers", FIX_PAIR)
    rules = dict(expected_tensors(sizes))
    wrong = [message for name, rule in rules.items() if (message := _misfit(name, rule, header))]
    if not {ROWS, HEAD} & header.tensors.keys():
        wrong.insert(0, f"has neither {ROWS} nor {HEAD}")
    # Old checkpoints hold the rotations' frequencies, which nothing reads.
    extra = sorted(name for name in header.tensors if name not in rules and not name.endswith("rotary_emb.inv_freq"))
    wrong += [f"has weights that the architecture does not know: {shown(name)}" for name in extra]
    wrong += [
        f"has {shown(name)} as {tensor.dtype}: quantized weights are not loaded"
        for name, tensor in header.tensors.items()
        if name in rules and tensor.dtype not in FLOATS
    ]
    if wrong:
        others = f" ({len(wrong)} tensors do not fit)" if len(wrong) > 1 else ""
        raise ModelError(f"{where} {wrong[0]}{others}", FIX_PAIR)


def _misfit(name: str, rule: TensorRule, header: Header) -> str:
    tensor = header.tensors.get(name)
    if tensor is None:
        switch = f", config.json says {rule.switch}" if rule.switch else ""
        return f"has no tensor {name}{switch}" if rule.is_needed else ""
    if rule.is_needed is False:
        return f"has {name}, config.json says {rule.switch}"
    if tensor.shape != rule.shape:
        return f"has {name} with the shape {list(tensor.shape)}, config.json says {list(rule.shape)} ({rule.settings})"
    return ""
