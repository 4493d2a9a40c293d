"""The contract of an adapter, proved with a real Artemis, where one is at hand.

No distribution packages it: unpack ``apache-artemis-2.40.0-bin.zip`` (Maven has it) and name the
folder in ``DRAGOMAN_ARTEMIS``.
"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from adapters.stomp.address import read_setup
from adapters.stomp.messages import write
from mediation.model.messages import Attachment
from tests.rigs.adapters import storm
from tests.rigs.broker_trials import SelectorContractOverAWire
from tests.rigs.brokers import PASSWORD, USER, Node
from tests.rigs.ports import free_ports
from tests.rigs.stomp_adapters import settings_of_a_test

HOME = os.environ.get("DRAGOMAN_ARTEMIS", "")
CREATING = 120.0


@pytest.mark.parametrize("system", ["artemis", "activemq", "rabbitmq"])
def test_what_has_a_content_length(system: str) -> None:
    """Artemis makes a bytes message of that: a program of JMS could not ask for its text."""
    kind = read_setup(f"stomp://host?system={system}", {}).system
    map_ = Attachment("map@station.example", "image/png", b"\0\1")
    said = {"java": False, "lossy": kind.java, "sized": kind.sized}
    text, _ = write(storm(), **said)
    octets, body = write(replace(storm(), attachments=(map_,)), **said)
    assert ("content-length" in text) == (system != "artemis")
    assert octets["content-length"] == str(len(body))


class Artemis(Node):
    """One Artemis, with STOMP alone."""

    def __init__(self, folder: Path) -> None:
        (port,) = ports = free_ports(1)
        super().__init__(folder, "stomp", ports)
        options = ["--user", USER, "--password", PASSWORD, "--require-login", "--silent"]
        options += [f"--no-{part}-acceptor" for part in ("amqp", "hornetq", "mqtt", "stomp")]
        options += ["--no-autotune", "--no-web", "--host", "127.0.0.1", "--default-port", str(port)]
        subprocess.run(
            [Path(HOME) / "bin" / "artemis", "create", folder / "broker", *options],
            check=True, timeout=CREATING, capture_output=True,
        )  # fmt: skip

    def _run_node(self) -> subprocess.Popen[bytes]:
        # Its script ends with `exec java`, so the process is the broker's.
        command = [str(self.folder / "broker" / "bin" / "artemis"), "run"]
        return self._run(command, {**os.environ, "JAVA_ARGS_APPEND": "-Xms64m -Xmx512m"})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    if not HOME:
        pytest.skip("needs an Artemis: DRAGOMAN_ARTEMIS names no folder with one")
    broker = Artemis(tmp_path_factory.mktemp("artemis"))
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


if HOME:  # Else one line says that it is missing, and not one for each test.

    class TestArtemis(SelectorContractOverAWire):
        def url_at(self, broker: Artemis, port: int) -> str:
            return f"stomp://{quote(USER, '')}:{quote(PASSWORD, '')}@127.0.0.1:{port}"

        def make_settings(self) -> dict[str, str]:
            return {**settings_of_a_test(), "system": "artemis"}

else:

    def test_the_contract(broker: Artemis) -> None:
        """Skipped: there is none."""
