"""The pages. Each file here that does not begin with ``_`` is one; ``app.py`` registers it."""
