"""Driftscope's engine: everything that the pages and the command line do, without a face.

Floors are listed in ``docs/architecture.md``; a module imports only from floors below its own.
"""

__version__ = "0.1.0"
