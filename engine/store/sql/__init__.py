"""A user's SQL: checked, limited, and run in a process of its own. ``guard`` is the way in."""
