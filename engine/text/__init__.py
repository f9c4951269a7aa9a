"""Text and tokens: tokenizers, templates, drift, junk, alignment, cleanup and the check of a sample."""
