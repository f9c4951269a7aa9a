"""The lean body against the model that it was taken from."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.decode import body as body_module
from engine.decode.body import Body, KvCache, Product, _rows_of, grid_layout, packed_layout
from tests.support import of_soak, sized
from tools.training.shapes import ModelShape

LENGTHS = (3, 9, 17, 6)
VOCAB = 50


def model(family: str, layers: int = 3, **changes: Any) -> Any:
    torch.manual_seed(0)
    shape = ModelShape(family, 32, layers, 4, 2, 48)  # type: ignore[arg-type]
    config = shape.config(VOCAB, end=0)
    for name, value in changes.items():
        setattr(config, name, value)
    made = shape.model(config).eval()
    for weight in made.parameters():  # norms away from one, biases away from nothing
        torch.nn.init.normal_(weight, 0.3 if weight.ndim == 1 else 0.0, 0.2)
    return made


def expected(made: Any, rows: list[torch.Tensor]) -> list[torch.Tensor]:
    return [made.model(row[None], use_cache=False).last_hidden_state[0] for row in rows]


def drawn_rows() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(1, VOCAB, (length,), generator=generator) for length in LENGTHS]


def whole_pass(body: Body, ids: torch.Tensor, cache: KvCache, seen: int) -> torch.Tensor:
    """Hidden states [b, w, W] of rows that begin at position 0."""
    rows, width = ids.shape
    return body(ids.reshape(-1), grid_layout(torch.zeros(rows, dtype=torch.int64), width, seen), cache).view(
        rows, width, -1
    )


def products_of(body: Body) -> list[Product]:
    layer = body.layers[0]
    return [layer.qkv, layer.out, layer.gate_up, layer.down]


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("family", ["qwen3", "llama"])
@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("is_packed", [False, True])
def test_rows_go_on_from_their_own_positions(family: str, width: int, is_packed: bool) -> None:
    """Each row takes as many of its tokens as fit; in a grid the rest is padding that is overwritten later."""
    made, rows = model(family), drawn_rows()
    body = Body(made, 64)
    cache = KvCache(body, len(rows), 64)
    done = torch.zeros(len(rows), dtype=torch.int64)
    outputs: list[list[torch.Tensor]] = [[] for _ in rows]
    generator = torch.Generator().manual_seed(width)
    while any(int(count) < len(row) for count, row in zip(done, rows, strict=True)):
        take = torch.randint(0, width + 1, (len(rows),), generator=generator)
        take = torch.minimum(take, torch.tensor(LENGTHS) - done)
        ids = torch.zeros((len(rows), width), dtype=torch.int64)
        for number, row in enumerate(rows):
            ids[number, : take[number]] = row[done[number] : done[number] + take[number]]
        if is_packed:
            if not take.any():
                continue
            layout = packed_layout(done, take, width, 48)
            hidden = torch.zeros((len(rows) * width, 32))
            hidden[layout.slots] = body(ids.reshape(-1)[layout.slots], layout, cache)
        else:
            hidden = body(ids.reshape(-1), grid_layout(done, width, 48), cache)
        hidden = hidden.view(len(rows), width, -1)
        for number in range(len(rows)):
            outputs[number].extend(hidden[number, : take[number]])
        done += take
    for row, states in zip(expected(made, rows), outputs, strict=True):
        torch.testing.assert_close(torch.stack(states), row, atol=2e-5, rtol=1e-4)


@of_soak
def test_a_compiled_body_gives_the_same() -> None:
    made, rows = model("qwen3", layers=sized(1, 3)), drawn_rows()
    body = Body(made, 64)
    body.compile(backend="aot_eager")
    for row in rows[: sized(1, None)]:
        hidden = whole_pass(body, row[None], KvCache(body, 1, 64), len(row))
        torch.testing.assert_close(hidden[0], expected(made, [row])[0], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_products_are_the_plain_ones(bias: bool, dtype: torch.dtype) -> None:
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor computes nothing in bfloat16")
    made = model("qwen3", attention_bias=bias).to(dtype)
    rows = torch.stack([row[:3] for row in drawn_rows()])
    bodies = [Body(made, 64, is_packed=is_packed) for is_packed in (False, True)]
    assert [body.layers[0].qkv.is_packed for body in bodies] == [False, True]
    plain, packed = (whole_pass(body, rows, KvCache(body, 4, 64), 3) for body in bodies)
    exact = dtype == torch.float32
    torch.testing.assert_close(packed, plain, atol=2e-5 if exact else 0.1, rtol=1e-4 if exact else 0.05)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_spare_rows_of_large_products_change_nothing(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of a weight that comes from memory is multiplied as four, which is faster."""
    made = model("qwen3")
    rows = torch.randint(1, VOCAB, (count, 2), generator=torch.Generator().manual_seed(2))
    plain = Body(made, 64, is_packed=True)
    monkeypatch.setattr(body_module, "STREAMED_BYTES", 0)
    spared = Body(made, 64, is_packed=True)
    assert (plain.spared, spared.spared, Body(made, 64, is_packed=False).spared) == (0, body_module.FEW_ROWS, 0)
    asked: list[int] = []
    multiply = Product.__call__

    def noted(product: Product, state: torch.Tensor) -> torch.Tensor:
        asked.append(len(state))
        return multiply(product, state)

    monkeypatch.setattr(Product, "__call__", noted)
    for body in (plain, spared):
        cache = KvCache(body, count, 64)
        for column in range(2):
            first = torch.full((count,), column)
            layout = grid_layout(first, 1, column + 1, sees_all=True)
            hidden = body(rows[:, column], layout, cache)
        for row, state in zip(rows, hidden, strict=True):
            torch.testing.assert_close(state, expected(made, [row])[0][-1], atol=2e-5, rtol=1e-4)
    assert sorted(set(asked)) == sorted({count, max(count, body_module.FEW_ROWS)})


def test_a_cache_begins_with_zeros_where_torchs_own_memory_would() -> None:
    cache = KvCache(Body(model("qwen3"), 64), 3, 50)
    for part in (*cache.keys, *cache.values):
        assert not part.any() and part.is_contiguous() and part.data_ptr() % 64 == 0


def test_a_cache_that_finds_no_room_says_so_as_torch_does() -> None:
    body = Body(model("qwen3", 1), 64)
    with pytest.raises(torch.OutOfMemoryError, match="Unable to allocate"):
        KvCache(body, 2**20, 2**32)


@pytest.mark.parametrize("is_packed", [None, False, True])
def test_what_was_made_of_a_models_weights_is_made_once(is_packed: bool | None) -> None:
    """Layers that are not packed were copied anew for each body."""
    made = model("qwen3", 1)
    assert Body(made, 8, is_packed=is_packed).layers is Body(made, 32, is_packed=is_packed).layers


def test_each_matrix_is_packed_by_its_own_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large head above small layers stayed as it was, and took four times as long."""
    shape, wide = ModelShape("qwen3", 256, 1, 4, 2, 512), ModelShape("llama", 512, 1, 4, 2, 1_024)
    made = shape.model(shape.config(2_000, end=0)).eval()
    body = Body(made, 8)
    assert not any(product.is_packed for product in products_of(body))
    assert body.whole_head is not None and body.whole_head.is_packed
    assert Body(made, 8).whole_head is body.whole_head
    state = torch.randn(3, 256)
    torch.testing.assert_close(body.whole_head(state), state @ body.head.T, atol=2e-5, rtol=1e-4)
    large, same = (wide.model(wide.config(VOCAB, end=0)).eval() for _ in range(2))
    body = Body(large, 8)
    assert [product.is_packed for product in products_of(body)] == [True, False, True, True]  # 512 x 512 is small
    assert body.whole_head is None  # its 50 rows are few
    monkeypatch.setattr("engine.decode.body.free_memory", lambda device: 1_000_000)
    assert not any(product.is_packed for product in products_of(Body(same, 8)))


@pytest.mark.parametrize(("count", "is_slice"), [(5, False), (16, False), (5, True), (39, True)])
def test_a_head_for_a_gpu_has_the_rows_asked_for_and_then_others(count: int, *, is_slice: bool) -> None:
    head = torch.randn(40, 3)
    ids = torch.arange(count) if is_slice else torch.randperm(40)[:count].sort().values
    rows = _rows_of(head, ids, 16, is_slice=is_slice)
    assert torch.equal(rows[:count], head[ids])
    assert len(rows) == {5: 16, 16: 16, 39: 40}[count]  # 40: no more are there
    assert (rows.data_ptr() == head.data_ptr()) == is_slice
