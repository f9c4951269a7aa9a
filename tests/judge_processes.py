"""What stands for a process that judges: it hangs, dies or answers, as the text says. Importable by that process."""

from __future__ import annotations

import os
import time
from typing import Any

from engine.records import MoleculeVerdict

ANSWER = MoleculeVerdict(0, 0, None, True, ())


def scripted(connection: Any, settings: object) -> None:
    connection.send("ready")
    while True:
        task = connection.recv()
        if task.text == "hang":
            time.sleep(3_600)
        if task.text == "die":
            os._exit(1)
        connection.send(ANSWER)


def ends_at_once(connection: Any, settings: object) -> None:
    connection.close()
