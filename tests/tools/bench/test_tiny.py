"""The benchmarks of decoding run from end to end on toy shapes: a GPU's too, which is to be had only now and then."""

from __future__ import annotations

import pytest

from tests.support import of_soak
from tools.bench import gpu, sizes


@of_soak
@pytest.mark.parametrize(("bench", "last"), [(gpu, "ratios of tokens a second"), (sizes, "Predicted beside measured")])
def test_it_runs(bench: object, last: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--tiny"])
    bench.main()  # type: ignore[attr-defined]
    assert last in capsys.readouterr().out
