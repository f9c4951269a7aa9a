"""Evidence: what the reports state, set beside what is measured here."""
