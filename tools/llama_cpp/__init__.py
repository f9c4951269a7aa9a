"""llama.cpp as a second engine: our models in its format, both on the same token ids, what they log side by side.

Needs the packages of requirements-parity.txt (``make parity``), which nothing else here does.
"""
