"""One browser for all tests of pages, and a page of it for each test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.rigs.chromium import CHROMIUM, Page, browser, new_page


@pytest.fixture(scope="session")
def browser_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with browser(tmp_path_factory.mktemp("chromium")) as port:
        yield port


@pytest.fixture
async def page(browser_port: int) -> AsyncIterator[Page]:
    """A page of its own; what it complained of fails the test."""
    async with new_page(browser_port) as page:
        yield page
        assert not page.complaints
