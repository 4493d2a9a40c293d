"""A real ActiveMQ for tests, private to the run: folder, ports and users of its own.

It is started when the first test asks for it and ends with the run, however that ends. Where it is
not installed, tests are skipped, and say so.
"""

import atexit
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from tests.rigs import servers
from tests.rigs.brokers import PASSWORD, USER, Node
from tests.rigs.certificates import server_context
from tests.rigs.ports import free_ports

_HOME = Path("/usr/share/activemq")

# What the start script of ActiveMQ opens for it, as far as a broker without its console needs it.
_OPENED = (
    "java.base/java.lang=ALL-UNNAMED",
    "java.base/java.net=ALL-UNNAMED",
    "java.base/java.security=ALL-UNNAMED",
    "java.base/java.util=ALL-UNNAMED",
    "java.base/java.util.concurrent=ALL-UNNAMED",
    "java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "java.naming/javax.naming.spi=ALL-UNNAMED",
    "java.rmi/sun.rmi.transport.tcp=ALL-UNNAMED",
)

_BROKER = """<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="dragoman" useJmx="false"
    dataDirectory="{folder}/data">
  {elements}
  <persistenceAdapter><kahaDB directory="{folder}/data/kahadb" journalMaxFileLength="4mb"/></persistenceAdapter>
  <plugins><jaasAuthenticationPlugin configuration="dragoman"/>{authorization}</plugins>
  <sslContext><sslContext keyStore="file:{folder}/server.p12" keyStorePassword="secret"
    keyStoreType="PKCS12"/></sslContext>
  <systemUsage><systemUsage>
    <memoryUsage><memoryUsage limit="{memory}"/></memoryUsage>
    <storeUsage><storeUsage limit="200 mb"/></storeUsage>
    <tempUsage><tempUsage limit="50 mb"/></tempUsage>
  </systemUsage></systemUsage>
  <transportConnectors>
    <transportConnector name="stomp" uri="stomp+nio://127.0.0.1:{port}{query}"/>
    <transportConnector name="tls" uri="stomp+ssl://127.0.0.1:{tls_port}"/>
    <transportConnector name="jms" uri="tcp://127.0.0.1:{jms_port}"/>
  </transportConnectors>
</broker></beans>
"""

_LOGIN = """dragoman {{
  org.apache.activemq.jaas.PropertiesLoginModule required reload=true baseDir="{folder}"
  org.apache.activemq.jaas.properties.user="users.properties"
  org.apache.activemq.jaas.properties.group="groups.properties";
}};
"""

_LOGGING = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %-5p %c %m%n
"""


class ActiveMQ(Node):
    """One ActiveMQ.

    Args:
        authorization: An ``<authorizationPlugin>``; without one a user may do everything.
        memory: Of ``<memoryUsage>``.
        elements: More of ``<broker>``.
        query: Of the URI of the connector for STOMP.
    """

    def __init__(
        self,
        folder: Path,
        *,
        authorization: str = "",
        memory: str = "64 mb",
        elements: str = "",
        query: str = "",
    ) -> None:
        ports = free_ports(3)
        super().__init__(folder, "stomp", ports)
        _port, self.tls_port, self.jms_port = ports
        self._write_certificate()
        self.users({USER: PASSWORD})
        (folder / "activemq.xml").write_text(
            _BROKER.format(
                folder=folder,
                authorization=authorization,
                memory=memory,
                elements=elements,
                query=query,
                port=self.port,
                tls_port=self.tls_port,
                jms_port=self.jms_port,
            )
        )
        (folder / "login.config").write_text(_LOGIN.format(folder=folder))
        (folder / "log4j.properties").write_text(_LOGGING)

    def users(self, passwords: dict[str, str]) -> None:
        """Let in exactly these; each is a group of its own. At once."""
        lines = [
            f"{user}={password.replace(':', chr(92) + ':')}" for user, password in passwords.items()
        ]
        (self.folder / "users.properties").write_text("\n".join(lines) + "\n")
        (self.folder / "groups.properties").write_text(
            "".join(f"{user}={user}\n" for user in passwords)
        )

    def _write_certificate(self) -> None:
        server_context(self.folder, "localhost")
        pem = self.ca.read_bytes()
        key = serialization.load_pem_private_key(pem, None)
        store = pkcs12.serialize_key_and_certificates(
            b"server",
            key,  # type: ignore[arg-type]  # It is one of the kinds that it takes.
            load_pem_x509_certificate(pem),
            None,
            serialization.BestAvailableEncryption(b"secret"),
        )
        (self.folder / "server.p12").write_bytes(store)

    def _run_node(self) -> subprocess.Popen[bytes]:
        folder = self.folder
        properties = {
            "activemq.home": _HOME,
            "activemq.base": folder,
            "activemq.conf": folder,
            "activemq.data": folder / "data",
            "java.io.tmpdir": folder,
            "java.security.auth.login.config": folder / "login.config",
            "log4j.configuration": (folder / "log4j.properties").as_uri(),
        }
        words = [
            *("java", "-Xms64m", "-Xmx256m"),
            *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
            *(f"--add-opens={opened}" for opened in _OPENED),
            *(f"-D{name}={value}" for name, value in properties.items()),
            *("-jar", str(_HOME / "bin" / "activemq.jar"), "start"),
            f"xbean:{(folder / 'activemq.xml').as_uri()}",
        ]
        return self._run(
            words, {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(folder)}
        )


def needs_activemq() -> None:
    """Skip the module that says this, in one line, where there is no ActiveMQ."""
    if not (_HOME / "bin" / "activemq.jar").exists():
        missing = str(_HOME / "bin" / "activemq.jar")
    else:
        missing = next((one for one in ("java", "setpriv") if shutil.which(one) is None), "")
    if missing:
        pytest.skip(
            f"needs an ActiveMQ: {missing} is not installed (activemq)", allow_module_level=True
        )


@contextlib.contextmanager
def activemq_broker(
    *, authorization: str = "", memory: str = "64 mb", elements: str = "", query: str = ""
) -> Iterator[ActiveMQ]:
    """A broker of one's own."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-activemq-"))
    broker = ActiveMQ(
        folder, authorization=authorization, memory=memory, elements=elements, query=query
    )
    try:
        broker.start()
        yield broker
    finally:
        broker.stop(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def activemq() -> ActiveMQ:
    """The broker that all tests of this run share; who stops it or limits it takes
    `own_activemq`."""
    return servers.of_the_run("activemq", own_activemq)


@functools.cache
def own_activemq() -> ActiveMQ:
    """The broker that the tests of this process share; whoever stops it starts it again."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(activemq_broker())
