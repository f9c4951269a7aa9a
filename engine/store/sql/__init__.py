"""A user's SQL: read-only, limited, and run in a process of its own. ``guard`` is the way in."""
