"""The types of Grid SOAP Events as the gateway serves them."""

import re
from pathlib import Path

import pytest
from lxml import etree

from mediation.grid_events import Event, TypeName, read_payload, write_payload
from tests.rigs.gateways import Running
from tests.rigs.grid_events import event_in, sample

pytestmark = pytest.mark.asyncio(loop_scope="module")
RDDL = "{http://www.rddl.org/}resource"


async def test_payloads_are_valid(gateway: Running, tmp_path: Path) -> None:
    for name in ("event.xsd", "resdat.xsd"):
        answer = await gateway.request("GET", f"/schemas/{name}")
        (tmp_path / name).write_bytes(answer.body)
    schema = etree.XMLSchema(etree.parse(tmp_path / "resdat.xsd"))  # It imports the other.
    for name in ("event", "derived"):
        payload = write_payload(event_in(sample(name)))
        assert read_payload(payload) is not None
        schema.assertValid(etree.fromstring(payload))
    wrong = Event("urn:x", "a", "b", type_name=TypeName("urn:x", "Unknown"))
    assert not schema.validate(etree.fromstring(write_payload(wrong)))


@pytest.mark.parametrize("name", ["event", "resdat"])
async def test_a_namespace_is_described(gateway: Running, name: str) -> None:
    answer = await gateway.request("GET", f"/schemas/{name}")
    assert answer.status == 200
    [resource] = etree.fromstring(answer.body).iter(RDDL)
    assert resource.get("{http://www.w3.org/1999/xlink}href") == f"{name}.xsd"
    assert re.search(rb"<code>http://www\.extreme\.indiana\.edu/soap/events", answer.body)
    assert (await gateway.request("POST", f"/schemas/{name}")).status == 405
    assert (await gateway.request("GET", "/schemas/nothing")).status == 404
