"""The parts of the Logit health page."""
