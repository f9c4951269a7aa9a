"""Constraints on what a model may write next: one small file each, all compiled to one table form."""

import engine.lp_records  # noqa: F401 - first: LPs of other packages import modules of this one
