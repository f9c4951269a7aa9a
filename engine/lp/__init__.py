"""Constraints on what a model may write next: one small file each, all compiled to one table form."""
