"""Data and training of the embedded models, and the molecule sets that ship in ``data/``."""
