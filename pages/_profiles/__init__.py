"""The parts of the Profiles page."""
