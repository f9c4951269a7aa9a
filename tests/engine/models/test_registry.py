"""The registry: what it takes, what it refuses by name, how a model is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ModelError, RegistryError
from engine.models.loading import load_outline
from engine.models.registry import EMBEDDED, USER_VARIABLE, load_registry, read_registry
from engine.records import SHORTEST4, BinFormat, NumberFormat
from tests.small_models import write_registry

PLAIN = 'alias = "m380"\nstep = "2e"\nfolder = "checkpoints/2e"\ntokenizer = "llama3"\n'


def test_an_entry_with_all_keys(tmp_path: Path) -> None:
    (entry,) = read_registry(write_registry(tmp_path, PLAIN))
    assert (entry.dtype, entry.numbers, entry.notes, entry.card) == ("float32", NumberFormat(4, 4, 3), "", None)
    more = 'decimals = [1, 4]\ninteger_digits = 2\ndtype = "bfloat16"\nnotes = "two epochs"\ncard = "card.md"\n'
    (entry,) = read_registry(write_registry(tmp_path, PLAIN + more))
    assert (entry.name, entry.tokenizer, entry.dtype, entry.notes) == ("m380:2e", "llama3", "bfloat16", "two epochs")
    assert entry.numbers == NumberFormat(1, 4, 2)
    assert entry.folder == tmp_path / "checkpoints/2e"
    assert entry.card == tmp_path / "card.md"
    (trimmed,) = read_registry(write_registry(tmp_path, PLAIN + "decimals = [0, 4]\n"))
    assert trimmed.numbers == SHORTEST4


def test_bins_in_place_of_decimals(tmp_path: Path) -> None:
    (tmp_path / "bins").mkdir()
    (tmp_path / "bins" / "uniform.json").write_text('{"mode": "uniform", "L": -2, "H": 2, "n_bins": 4}')
    (entry,) = read_registry(write_registry(tmp_path, PLAIN + 'bins = "bins/uniform.json"\n'))
    assert entry.numbers == BinFormat(edges=(-2.0, -1.0, 0.0, 1.0, 2.0), mode="uniform")
    (entry,) = read_registry(write_registry(tmp_path, PLAIN + 'bins = "0.042 21"\n'))
    assert entry.numbers == BinFormat.in_brackets(0.042, 21)


def test_a_byte_order_mark_is_no_part_of_it(tmp_path: Path) -> None:
    """Editors of Windows write one: *Invalid statement (at line 1, column 1)* said nobody what."""
    path = write_registry(tmp_path, PLAIN)
    path.write_text(path.read_text("utf-8"), encoding="utf-8-sig")
    assert [entry.alias for entry in read_registry(path)] == ["m380"]


@pytest.mark.parametrize(("given", "expected"), [("own", "own"), ("qwen3", "qwen3"), ("tok/x", None), ("here", None)])
def test_a_tokenizer_is_a_name_or_a_path_beside_the_file(tmp_path: Path, given: str, expected: str | None) -> None:
    (tmp_path / "here").mkdir()
    (entry,) = read_registry(write_registry(tmp_path, PLAIN.replace("llama3", given)))
    assert entry.tokenizer == (expected or str(tmp_path / given))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("llama3", 'llama3"\nfodler = "x'), "model 2: the key 'fodler' is unknown, known are alias"),
        (('"2e"', "2"), "model 2: `step` is '2', which is of the wrong type"),
        (('"2e"', '""'), "model 2: `step` is missing"),
        (('"2e"', '"../2e"'), "`step` is '../2e', not at most 64 letters"),
        (('alias = "m380"\n', ""), "`alias` is missing"),
        (("folder", "notes"), "give one of `folder` and"),
        (("checkpoints", "~nobody-2"), "`folder`: the home folder of '~nobody-2/"),
        (('"llama3"', '"llama3"\ndtype = "float8"'), "`dtype` is 'float8', not one of float32, bfloat16, float16"),
        (('"llama3"', '"llama3"\ndescriptors = "long"'), "`descriptors` is"),
        (('"llama3"', '"llama3"\nbos = 1'), "`bos` is"),
        (('"llama3"', '"llama3"\ndecimals = [4, 1]'), "decimals must satisfy 0 <= least <= most"),
        (('"llama3"', '"llama3"\nbins = "0.5 1"\ndecimals = [1, 4]'), "it has both `bins` and decimals"),
        (('"llama3"', '"llama3"\ndecimals = [1, 4, 5]'), "`decimals` is '[1, 4, 5]', not the least and the most"),
        (('"llama3"', '"llama3"\ndecimals = [true, 4]'), "`decimals` is '[True, 4]'"),
        (("[[model]]", "[other]"), "'other', and not [[model]] tables only"),
        (("alias = ", "alias = \n"), "is no model registry"),
        (("[[model]]", "#" * 5_000_000), "over 1 MB"),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    path = tmp_path / "models.toml"
    path.write_text(f"[[model]]\n{PLAIN}\n" + f"[[model]]\n{PLAIN}".replace(*change))
    with pytest.raises(RegistryError) as caught:
        read_registry(path)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("bins", "problem"),
    [("no.json", "no.json' cannot be read"), ("half.json", "is no file of bins"), ("0.5 0.3", "bins of 0.5 over -0.3")],
)
def test_bins_that_cannot_be_read_are_the_problem_of_their_entry_alone(tmp_path: Path, bins: str, problem: str) -> None:
    (tmp_path / "half.json").write_text('{"mode": "unif')
    path = tmp_path / "models.toml"
    path.write_text(f'[[model]]\n{PLAIN}bins = "{bins}"\n[[model]]\n{PLAIN.replace("m380", "other")}')
    broken, whole = load_registry([path]).entries
    assert (whole.name, whole.problem) == ("other:2e", "")
    assert broken.name == "m380:2e" and broken.problem.startswith("`bins`: ") and problem in broken.problem
    with pytest.raises(ModelError, match=r"m380:2e: `bins`: .*Correct it in .*models.toml, or `models rm m380:2e`"):
        load_outline(broken)


def test_the_user_file_adds_to_the_embedded_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(USER_VARIABLE, raising=False)
    assert {entry.source for entry in load_registry().entries} == {EMBEDDED}
    path = write_registry(tmp_path, PLAIN)
    monkeypatch.setenv(USER_VARIABLE, str(path))
    entries = load_registry().entries
    assert [entry.source for entry in entries] == [EMBEDDED] * (len(entries) - 1) + [path]
    for missing, message in (
        (str(tmp_path / "none.toml"), r"No such file or directory. Correct it, or DRIFTSCOPE_MODELS"),
        ("~nobody-2/models.toml", r"DRIFTSCOPE_MODELS: the home folder of '~nobody-2/models.toml'"),
    ):
        monkeypatch.setenv(USER_VARIABLE, missing)
        with pytest.raises(RegistryError, match=message):
            load_registry()


def test_models_are_found_by_alias_and_step(tmp_path: Path) -> None:
    steps = [PLAIN.replace("2e", step) for step in ("1e", "2e")]
    registry = load_registry([write_registry(tmp_path, *steps, PLAIN.replace("m380", "other"))])
    assert registry.find("m380").step == "2e"  # the last one
    assert registry.find("m380", "1e").step == "1e"
    assert registry.find("m380:1e").step == "1e"
    assert registry.find("m380:1e", "1e").step == "1e"
    with pytest.raises(RegistryError, match=r"no model 'm381'. Did you mean m380\? \(`models add FOLDER`"):
        registry.find("m381")
    with pytest.raises(RegistryError, match=r"m380 has no step '3e'. Did you mean 2e or 1e\?"):
        registry.find("m380:3e")
    with pytest.raises(RegistryError, match="two steps are given"):
        registry.find("m380:1e", "2e")
    with pytest.raises(RegistryError, match="Known are none"):
        load_registry([]).find("m380")
    (tmp_path / "b").mkdir()
    first, second = write_registry(tmp_path, PLAIN), write_registry(tmp_path / "b", PLAIN)
    with pytest.raises(RegistryError, match=rf"m380:2e is registered twice, in '{first}' and '{second}'"):
        load_registry([first, second])
