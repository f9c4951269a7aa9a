"""The sections of the Tokenizer lab."""
