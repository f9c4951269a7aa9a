"""A page's address for tests that run no page."""

from __future__ import annotations


class Params(dict):
    """Streamlit's ``st.query_params``, as far as pages use it."""

    def get_all(self, name: str) -> list[str]:
        value = self.get(name, [])
        return [value] if isinstance(value, str) else value
