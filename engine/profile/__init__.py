"""Profiles: traces of a generation captured, read from files, kept in the store, and compared."""
