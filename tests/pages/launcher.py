"""App servers by the dozen: a process that has imported what the app needs, and forks a server per order.

A server of its own per store keeps tests apart; that each one imports Streamlit, plotly and torch anew would take a
third of the browser tests' time. An order is a line of JSON on standard input, the answer the server's process id.
The servers end with this process.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import signal
from contextlib import suppress
from typing import Any

LARGE = ("streamlit.web.bootstrap", "streamlit.web.cli", "torch", "transformers", "engine.jobs.lane")


def import_all() -> None:
    logging.disable(logging.WARNING)  # a cache that is made outside of Streamlit's runtime says so
    for name in LARGE:
        importlib.import_module(name)
    from pages._app.warming import warm  # a server finds it done, and begins with none of it

    for _ in warm():
        pass
    logging.disable(logging.NOTSET)


def serve(order: dict[str, Any]) -> None:
    """The child: as ``python -m streamlit run`` would be, in the environment of the order."""
    from streamlit.web import cli

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for target, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(order["environment"])
    cli.main(order["arguments"], prog_name="streamlit", standalone_mode=False)


def main() -> None:
    orders = os.fdopen(os.dup(0), encoding="utf-8")
    import_all()
    gc.freeze()  # a server's collections pass by what is imported, and leave its memory shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a server that ended leaves nothing
    started = []
    for line in orders:
        process = os.fork()
        if process == 0:
            code = 1
            try:
                serve(json.loads(line))
                code = 0
            finally:
                os._exit(code)
        started.append(process)
        print(process, flush=True)
    for process in started:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
