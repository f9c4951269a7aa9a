"""RDKit's messages, and its search for substructures and Ctrl-C, which it takes for itself."""

from __future__ import annotations

import subprocess
import sys

SEARCHES = """
import os, signal, threading
from rdkit import Chem
from engine.chem.rdkit_log import matching
mol = Chem.AddHs(Chem.MolFromSmiles("C(C)(C)(C)CC(C)(C)C"))
def search(most):
    with matching():
        mol.GetSubstructMatches(mol, uniquify=False, maxMatches=most)
threads = [threading.Thread(target=lambda: [search(100) for _ in range(300)]) for _ in range(2)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("after two threads")
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    search(10**7)
except KeyboardInterrupt:
    print("within a search")
"""


def test_ctrl_c_is_neither_lost_after_searches_of_two_threads_nor_within_one() -> None:
    """Two at once left RDKit's handler in place for good; an interrupted search answered with a part of its matches."""
    done = subprocess.run([sys.executable, "-c", SEARCHES], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["after two threads", "within a search"]
