"""The plugin for pytest that comes with ``dragoman-client``: `dragoman_gateway` for all tests.

::

    def test_storms(dragoman_gateway):
        with WsnClient(dragoman_gateway.url) as client:
            client.publish("<speed>120</speed>", topic="storms")
"""

from collections.abc import Iterator

import pytest

from dragoman.gateway import Gateway, GatewayFailed


@pytest.fixture(scope="session")
def dragoman_gateway() -> Iterator[Gateway]:
    """A gateway that keeps its messages in memory, one for all tests of a run: give each test a
    topic of its own. Tests are skipped where Dragoman itself is not installed."""
    try:
        with Gateway("memory:") as gateway:
            yield gateway
    except GatewayFailed as failed:
        if "the distribution dragoman" not in str(failed):
            raise
        pytest.skip(str(failed))
