"""Names, times and parameters of report files in the store's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engine.store.reports.importing import family_of, lp_of, read_run, tokenizer_of
from engine.store.reports.texts import read_item
from tests.engine.store.reports.documents import document


def row_of(**metadata: Any) -> Mapping[str, Any]:
    content = document(**metadata)
    return read_run(content, [read_item(content["passes"][0], "passes", 0)]).row


@pytest.mark.parametrize(
    ("enabled", "processor", "version", "expected"),
    [
        (True, "generic", "", "group-v2.1"),
        (None, "generic", "v3.8", "group-v2.1"),
        (True, "qwen", "v3.8", "group-v3.8"),
        (True, "Qwen", "3.9", "group-v3.9"),
        (True, "qwen", "qwen_v43", "group-v4.3"),
        (True, "qwen", "4.3.1", "group-v4.3"),
        (True, "qwen", "v3.7", None),
        (True, "qwen", "", None),
        (True, "qwen", "13.8", None),
        (False, "qwen", "v3.8", "none"),
        (None, "", "", None),
        (True, "", "v3.8", None),
        (True, "exact", "", "exact"),
        (True, "group-v4.3+cleanup", "", "group-v4.3+cleanup"),
        (None, "none", "", "none"),
        (True, "another", "", None),
    ],
)
def test_lps_go_by_our_names(enabled: bool | None, processor: str, version: str, expected: str | None) -> None:
    assert lp_of(enabled, processor, version) == expected


@pytest.mark.parametrize(
    ("name", "family", "tokenizer"),
    [
        ("qwen3_0.6b_custom", "Qwen", "qwen3"),
        ("Qwen3_custom", "Qwen", "qwen3"),
        ("llama3_chem_v1", "LLaMA", "llama3"),
        ("LLaMA-3.2-chem", "LLaMA", "llama3"),
        ("m380_conf_v2", "LLaMA", None),
        ("qwen2.5", "Qwen", None),
        ("gpt2", None, None),
        ("", None, None),
    ],
)
def test_families_and_tokenizers_by_name(name: str, family: str | None, tokenizer: str | None) -> None:
    assert (family_of(name), tokenizer_of(name)) == (family, tokenizer)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("2025-12-13T10:20:30", "2025-12-13T10:20:30+00:00"),
        ("2025-12-13 10:20:30.5+02:00", "2025-12-13T08:20:30.500000+00:00"),
        ("20251213_102030", "2025-12-13T10:20:30+00:00"),
        (1_765_621_230, "2025-12-13T10:20:30+00:00"),
        ("0001-01-01T00:00:00+14:00", None),
        (1e300, None),
        ("yesterday", None),
        (True, None),
        (["2025"], None),
    ],
)
def test_timestamps(said: Any, expected: str | None) -> None:
    assert row_of(timestamp=said).get("created_at") == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("greedy", {"sampling": "greedy", "temperature": 0.0, "top_p": 1.0, "min_p": 0.0}),
        ("qwen3", {"sampling": "qwen3", "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.0}),
        ("our own", {"sampling": "our own"}),
        ({"top_k": 5, "temperature": 1}, {"sampling": '{"temperature":1,"top_k":5}', "temperature": 1.0, "top_k": 5}),
        ({"top_k": "all"}, {"sampling": '{"top_k":"all"}'}),
        ({"temperature": 2**70, "top_p": True}, {"sampling": f'{{"temperature":{2**70},"top_p":true}}'}),
        ({"top_k": 2**63}, {"sampling": f'{{"top_k":{2**63}}}'}),
    ],
)
def test_sampling_as_a_preset_or_in_parameters(said: Any, expected: dict[str, Any]) -> None:
    row = row_of(sampling=said)
    keys = ("sampling", "temperature", "top_k", "top_p", "min_p")
    assert {key: row[key] for key in keys if key in row} == expected
