"""The reference of the client's package is as its docstrings are."""

import sys

import pytest

from distributions.client import reference


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="others write signatures otherwise")
def test_the_page_is_current() -> None:
    written = reference.PAGE.read_text()
    assert written == reference.page(), "write it anew: python -m distributions.client.reference"


def test_every_public_name_is_described() -> None:
    page = reference.page()
    for module in reference.modules():
        assert f"## {module.__name__}\n" in page
        for name in getattr(module, "__all__", ()):
            assert f"### {name}" in page, name
