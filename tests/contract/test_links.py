"""Addresses of pages go on selecting what they selected, as the pages themselves say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.contract.black_box import pages
from tests.contract.expected import is_gone, keys_gone, missing, recorded
from tests.support import ROOT

LINKS = {name: link for name, link in recorded("links").items() if not is_gone("link", name)}


@pytest.mark.parametrize("page", sorted({link["page"] for link in LINKS.values()}))
def test_links_to_a_page_select_what_they_selected(page: str, tmp_path: Path) -> None:
    store = Path(shutil.copytree(ROOT / "data" / "demo", tmp_path / "demo"))
    links = {name: link for name, link in LINKS.items() if link["page"] == page}
    wanted = {name: sorted(set(link["shown"]) - keys_gone("link", name)) for name, link in links.items()}
    opened = pages([(page, link["query"], wanted[name]) for name, link in links.items()], store)
    assert not [(name, found["exceptions"]) for name, found in zip(links, opened, strict=True) if found["exceptions"]]
    assert not [
        (name, lost)
        for (name, link), found in zip(links.items(), opened, strict=True)
        for lost in missing("link", name, link["shown"], found["shown"])
    ]
