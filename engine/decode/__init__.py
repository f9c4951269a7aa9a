"""Decoding: sampling, the step loop, the plain backend and the fast one, scoring of what was written."""
