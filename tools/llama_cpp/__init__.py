"""llama.cpp as a second engine: our models in its format, both on the same token ids, what they log side by side.

Needs the packages of requirements-parity.txt (``make parity``), which nothing else here does.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from engine.errors import AssetError


def package(name: str) -> Any:
    """``llama_cpp`` or ``gguf``, untyped: it may not be there when types are checked."""
    try:
        module = import_module(name)
    except (ImportError, OSError, RuntimeError) as error:  # a library that does not load is no ImportError
        raise AssetError(f"the package {name} cannot be imported ({error})", "`make parity` builds it") from error
    logging.getLogger("gguf").setLevel(logging.WARNING)  # it logs every file
    return module
