"""Headers of safetensors files: what they hold, and every way in which a file can be no whole one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from engine.errors import FileFormatError
from engine.models import headers
from engine.models.headers import INDEX, WEIGHTS, TensorInfo, read_header, read_headers

TENSORS: dict[str, np.ndarray] = {"a": np.zeros((3, 4), dtype=np.float16), "b": np.zeros(5, dtype=np.float32)}


def with_header(document: object, data: bytes = b"") -> bytes:
    header = json.dumps(document).encode()
    return len(header).to_bytes(8, "little") + header + data


def test_a_header_is_read_without_the_tensors(tmp_path: Path) -> None:
    path = tmp_path / WEIGHTS
    path.write_bytes(save(TENSORS, metadata={"format": "pt"}))
    header = read_header(path)
    assert header.tensors == {"a": TensorInfo("F16", (3, 4)), "b": TensorInfo("F32", (5,))}
    assert header.metadata == {"format": "pt"}
    assert (header.parameters, header.size_bytes) == (17, path.stat().st_size)
    assert read_headers(tmp_path) == header


@pytest.mark.parametrize("kept", [0, 4, 8, 20, -1, -20])
def test_a_truncated_file_is_damaged(tmp_path: Path, kept: int) -> None:
    path = tmp_path / WEIGHTS
    path.write_bytes(save(TENSORS)[:kept])
    with pytest.raises(FileFormatError, match=r"the weights '.*' are damaged: .* bytes"):
        read_header(path)


def test_a_lengthened_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / WEIGHTS
    path.write_bytes(save(TENSORS) + b"x")
    with pytest.raises(FileFormatError, match="bytes and should have"):
        read_header(path)


@pytest.mark.parametrize(
    "content",
    [
        b"\x10" + bytes(7) + b"this is no JSON!",
        with_header([]),
        with_header({"a": 1}),
        with_header({"a": {"dtype": "F16", "shape": [2]}}),
        with_header({"a": {"dtype": "F16", "shape": ["x"], "data_offsets": [0, 4]}}, bytes(4)),
        with_header({"a": {"dtype": "F16", "shape": [3], "data_offsets": [0, 4]}}, bytes(4)),
        with_header({"a": {"dtype": "F16", "shape": [math.inf], "data_offsets": [0, 4]}}, bytes(4)),
        with_header({"a": {"dtype": "F16", "shape": [2], "data_offsets": [0, math.inf]}}, bytes(4)),
        with_header({"a": {"dtype": "F16", "shape": [2], "data_offsets": [0]}}, bytes(4)),
        with_header({"__metadata__": {"shape": 5}}),
        b"\xff" * 64,
    ],
)
def test_other_content_is_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / WEIGHTS
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="are damaged"):
        read_header(path)


@pytest.mark.parametrize("shape", [[10**4_000] * 2_000, [-1, -4], [1] * 65])
def test_shapes_that_no_tensor_has_are_refused_before_they_are_multiplied(tmp_path: Path, shape: list[int]) -> None:
    path = tmp_path / WEIGHTS
    path.write_bytes(with_header({"a": {"dtype": "F8", "shape": shape, "data_offsets": [0, 4]}}, bytes(4)))
    with pytest.raises(FileFormatError, match="'a' has a shape that no tensor has"):
        read_header(path)


def test_files_of_too_many_tensors_are_not_all_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    index = {f"{file}{number}": f"{file}.safetensors" for file in "abc" for number in range(100)}
    for file in "ab":  # the third is not asked for
        named = {name: about for name, where in index.items() if where == f"{file}.safetensors"}
        (tmp_path / f"{file}.safetensors").write_bytes(with_header(named))
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": index}))
    monkeypatch.setattr(headers, "_MOST_TENSORS", 199)
    with pytest.raises(FileFormatError, match="its files have over 199 tensors"):
        read_headers(tmp_path)


def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"has no model\.safetensors"):
        read_headers(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(
        FileFormatError, match=r"'pytorch_model\.bin' and no safetensors: pickled weights are not loaded"
    ):
        read_headers(tmp_path)


def test_weights_in_several_files(tmp_path: Path) -> None:
    for name, tensor in TENSORS.items():
        (tmp_path / f"part-{name}.safetensors").write_bytes(save({name: tensor}))
    index = tmp_path / INDEX
    index.write_text(json.dumps({"weight_map": {name: f"part-{name}.safetensors" for name in TENSORS}}))
    assert read_headers(tmp_path).parameters == 17
    (tmp_path / "part-b.safetensors").unlink()
    with pytest.raises(FileFormatError, match=r"part-b\.safetensors' cannot be read \(No such file"):
        read_headers(tmp_path)


def shards(folder: Path, count: int, index: object = None) -> None:
    """Each tensor in a file of its own, and an index of them."""
    files = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in (1, 2)]
    for file, (name, tensor) in zip(files, TENSORS.items(), strict=True):
        (folder / file).write_bytes(save({name: tensor}))
    (folder / INDEX).write_text(json.dumps({"weight_map": index or dict(zip(TENSORS, files, strict=True))}))


@pytest.mark.parametrize("is_whole", [False, True])
def test_two_sets_of_weights_are_refused(tmp_path: Path, is_whole: bool) -> None:
    shards(tmp_path, 2)
    assert read_headers(tmp_path).parameters == 17
    if is_whole:
        (tmp_path / WEIGHTS).write_bytes(save(TENSORS))
        complaint = r"two sets of weights: 'model-00001-of-00002.safetensors' does not belong to model.safetensors\."
    else:
        shards(tmp_path, 3)
        complaint = r"two sets of weights: 'model-00001-of-00002.safetensors' does not belong to .*index\.json"
    with pytest.raises(FileFormatError, match=complaint):
        read_headers(tmp_path)


def test_several_files_without_their_index(tmp_path: Path) -> None:
    shards(tmp_path, 2)
    (tmp_path / INDEX).unlink()
    with pytest.raises(FileFormatError, match=r"has 2 of several weight files and no model\.safetensors\.index\.json"):
        read_headers(tmp_path)


def test_an_index_that_its_files_contradict(tmp_path: Path) -> None:
    first, second = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    for index, complaint in (
        ({"a": second, "b": first}, f"by it 'a' is in '{second}', by the files' headers in '{first}'"),
        ({"a": first, "b": second, "c": first}, f"by it 'c' is in '{first}', by the files' headers in no file"),
        ({"a": first, "c": second}, f"by it 'b' is in no file, by the files' headers in '{second}'"),
    ):
        shards(tmp_path, 2, index)
        with pytest.raises(FileFormatError, match=complaint):
            read_headers(tmp_path)
    (tmp_path / second).write_bytes(save(TENSORS))
    with pytest.raises(FileFormatError, match=f"'a' is in '{first}' and in '{second}'"):
        read_headers(tmp_path)


@pytest.mark.parametrize("name", ["../elsewhere.safetensors", "/etc/passwd", 7])
def test_an_index_names_files_beside_it_only(tmp_path: Path, name: object) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(FileFormatError, match="which is not a file in its folder"):
        read_headers(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": 3}'])
def test_an_index_that_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / INDEX).write_text(content)
    with pytest.raises(FileFormatError, match="is not an index"):
        read_headers(tmp_path)
