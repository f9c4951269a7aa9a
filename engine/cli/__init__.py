"""The command line: one file a group of commands. Heavy imports stand inside the functions that need them."""
