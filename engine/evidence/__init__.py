"""Evidence: what the reports state, next to what is measured here."""
