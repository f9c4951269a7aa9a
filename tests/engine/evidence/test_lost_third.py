"""Documents of the lost third in a store: the first place's are shown, and damaged ones are named."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.evidence.lost_third import load_usable
from engine.store.files import Files
from engine.store.store import DEMO, Store


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "Expecting"),
        (b"[]", "got `array`"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"model": "x"}', "lanes"),
        (b" " * 2_000_001, "bytes"),
        (b'{"model": [], "lanes": [], "fall": null, "reordered": null}', "got `array` - at `..model`"),
        (b'{"model": "x", "lanes": [], "fall": null, "reordered": {"cov_r": {"value": 1}}}', "`low` - at `..reordered"),
        (b'{"model": "x", "lanes": [{"lane": "none"}], "fall": null, "reordered": null}', "`words` - at `.*lanes"),
        (b'{"model": "x", "lanes": [], "fall": null, "reordered": {"a": {"value": NaN}}}', "reordered"),
    ],
)
def test_what_is_no_result_is_named(store: Store, content: bytes, why: str) -> None:
    store.home.write("lost_third/x.json", content)
    usable, (error,) = load_usable([Files(DEMO), store.home])
    assert len(usable) == 3 and re.search(f"x.json' is no result of `lost-third`: .*{why}", str(error))


def test_the_first_place_that_has_a_model_is_shown(store: Store, tmp_path: Path) -> None:
    empty: dict[str, Any] = {"lanes": [], "fall": None, "reordered": None}
    beside = Files(tmp_path / "beside")
    for model, files in (("b:early", store.home), ("a", beside), ("b:early", beside)):
        document = {"model": model, "from": files.where, **empty}
        files.write(f"lost_third/{model.replace(':', '-')}.json", json.dumps(document).encode())
    found, _ = load_usable([store.home, beside])
    assert [(document["model"], document["from"]) for document in found] == [
        ("a", beside.where),
        ("b:early", store.home.where),
    ]
