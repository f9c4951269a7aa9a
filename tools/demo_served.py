"""The demo store's runs of other engines: ``python -m tools.demo_served --into data/demo``.

demo-qwen in vLLM with our plugin, in vLLM with its own grammar, and in plain ``generate`` with our mask: the held-out
molecules and settings of the runs that our own loop writes, one thread each. vLLM is that of ``make vllm``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from engine.errors import AssetError
from tools.terminal import ToolParser, run_tool
from tools.vllm_server import PLUGIN, ROOMY, VLLM_PYTHON, demo_folder, serving

LABEL = "other engines"
MODEL, MOLECULES, KEPT = "demo-qwen", 64, 8
ENGINES = (("exact", "server"), ("grammar", "server"), ("exact", "hf"))


def run(args: argparse.Namespace) -> None:
    if not VLLM_PYTHON.exists():
        raise AssetError("there is no vLLM in .venv-vllm", "`make vllm-environment` makes it (3.4 GB, minutes)")
    options = ["--model", MODEL, "--threads", "1", "--sample-size", str(args.molecules), "--keep-steps", str(KEPT)]
    options += ["--candidates", "5", "--rmsd", "10", "--strain", "--label", LABEL, "--store", str(args.into)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "vllm.log"
        with serving(demo_folder(MODEL), log, *ROOMY, "--logits-processors", PLUGIN) as url:
            for lp, backend in ENGINES:
                address = ["--url", url] if backend == "server" else []
                command = [sys.executable, "-m", "engine", "run", "--lp", lp, "--backend", backend, *address, *options]
                subprocess.run(command, check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.demo_served", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="the store")
    parser.add_argument("--molecules", type=int, default=MOLECULES, metavar="N", help=f"({MOLECULES})")
    args = parser.parse_args(arguments)
    return run_tool(lambda: run(args))


if __name__ == "__main__":
    raise SystemExit(main())
