"""The tables of ``bench.peers`` where there is no vLLM, and the ratios where there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bench import peers, served

PACES = {"vLLM none": 200.0, "vLLM regex": 160.0, "ours none": 250.0, "ours exact": 1_200.0}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_has_our_pace_over_theirs() -> None:
    assert peers.cells_of(peers.CASES[0], PACES)[-6:] == ["200", "160", "250", "1,200", "7.50", "1.25"]


def test_the_tables_without_vllm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (peers, served):
        monkeypatch.setattr(module, "VLLM_PYTHON", tmp_path / "python")
    monkeypatch.setattr(peers, "BATCH", 2)
    monkeypatch.setattr(peers, "STEP_LPS", {"demo-qwen": ("exact", "shaped")})
    peers.main(["--row", "1", "--rounds", "0", "--steps", "6"])
    tables = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    paces, (head, *steps) = tables[:3], [cells(line) for line in tables[3:] if "--:" not in line]
    row = dict(zip(cells(paces[0]), cells(paces[2]), strict=True))
    assert row["model"] == "demo-qwen" and row["batch"] == "1"
    assert all(row[name] == "–" for name in ("vLLM none", "vLLM regex", "exact / regex", "none / none"))
    assert float(row["ours none"].replace(",", "")) > 0 and float(row["ours exact"].replace(",", "")) > 0
    assert head[2] == "candidates"
    assert [step[1:3] for step in steps] == [
        ["our plugin, exact", "17"],
        ["our plugin, shaped", "17"],
        ["minus infinity everywhere, alone", ""],
    ]
