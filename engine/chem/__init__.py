"""Molecules: SMILES in, the enriched text codec, conformers and their metrics, drawings and files."""
