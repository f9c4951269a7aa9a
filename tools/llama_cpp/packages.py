"""The two packages beyond the app's requirements, or an error that says how to get them."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from engine.errors import AssetError


def gguf() -> Any:
    logging.getLogger("gguf").setLevel(logging.WARNING)  # it logs every file
    return _package("gguf")


def llama_cpp() -> Any:
    return _package("llama_cpp")


def _package(name: str) -> Any:
    """Untyped: it may not be there when types are checked."""
    try:
        return import_module(name)
    except (ImportError, OSError, RuntimeError) as error:  # a library that does not load is no ImportError
        raise AssetError(f"the package {name} cannot be imported ({error})", "`make parity` builds it") from error
