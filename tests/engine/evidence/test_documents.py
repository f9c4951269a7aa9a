"""Claims with their verdicts as documents, and files of verdicts that somebody wrote by hand."""

import json

import pytest

from engine.errors import FileFormatError
from engine.evidence.claims import load_claims
from engine.evidence.verdicts import FILE, FLAT, document, flat, load

CLAIMS = {claim.id: claim for claim in load_claims()}


def test_a_document_has_the_claim_and_its_verdict() -> None:
    last = load()
    assert last is not None
    told = document(CLAIMS["002-decomposition"], last.of("002-decomposition"))
    assert (told["reported"], told["verdict"], told["measured"]) == ("3.51", "reproduced", 3.5108)
    assert set(FLAT) <= set(told)
    assert json.dumps(told)


def test_a_claim_that_nobody_judged_has_the_same_columns() -> None:
    told = document(CLAIMS["000-junk-share"], None)
    assert told["verdict"] is None and told["claim_id"] == "000-junk-share"
    row = dict(zip(FLAT, flat(CLAIMS["000-junk-share"], None), strict=True))
    assert (row["also"], row["highlight"], row["query"]) == ("Counts; Expected results", True, None)


def test_a_highlight_is_data_of_either_kind_of_file() -> None:
    found = {claim.check for claim in CLAIMS.values() if claim.highlight}
    assert {"tokens", "sql"} <= found


@pytest.mark.parametrize(
    ("key", "value"), [("verdict", "true"), ("measured", "3.5"), ("measured", True), ("reason", None), ("query", 1)]
)
def test_a_verdict_that_is_none_is_named(tmp_path, key, value) -> None:
    saved = json.loads(FILE.read_text(encoding="utf-8"))
    saved["verdicts"][0][key] = value
    path = tmp_path / "verdicts.json"
    path.write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(FileFormatError, match="make claims"):
        load(path)
