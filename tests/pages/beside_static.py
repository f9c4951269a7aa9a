"""A demo script that finds 3Dmol.js: Streamlit serves the folder `static` beside the script that it runs."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def beside_static(script: Path, folder: Path, *, with_asset: bool = True) -> Path:
    (folder / "static").mkdir(parents=True, exist_ok=True)
    if with_asset:
        shutil.copy(ROOT / "static/3Dmol-min.js", folder / "static")
    started = folder / "started.py"
    started.write_text(f"import runpy\n\nrunpy.run_path({str(script)!r}, run_name='__main__')\n", encoding="utf-8")
    return started
