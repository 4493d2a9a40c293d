"""Subscriptions of sdc11073's consumer at a gateway (WS-Eventing, as DPWS 1.1 has it)."""

import logging
import ssl
import warnings
from typing import Any
from urllib.parse import urlsplit

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Of its own deprecated modules.
    from sdc11073.consumer.subscription import ConsumerSubscription
    from sdc11073.definitions_sdc import SdcV1Definitions
    from sdc11073.pysoap.msgfactory import MessageFactory
    from sdc11073.pysoap.msgreader import MessageReader
    from sdc11073.pysoap.soapclient import SoapClient
    from sdc11073.xml_types.addressing_types import EndpointReferenceType
    from sdc11073.xml_types.eventing_types import FilterType
    from sdc11073.xml_types.mex_types import HostedServiceType

LOGGER: Any = logging.getLogger("sdc")


def subscription(
    url: str,
    action: str,
    notify_to: str,
    end_to: str,
    opened: list[Any],
    *,
    tls: ssl.SSLContext | None = None,
) -> Any:
    """One of its subscriptions to *action* at the gateway at *url*, its messages made and read with
    its default settings; the connections that it opens are added to *opened*, for who closes them."""
    reader = MessageReader(SdcV1Definitions, None, LOGGER)

    def client(address: str) -> Any:
        one = SoapClient(urlsplit(address).netloc, 10.0, LOGGER, tls, SdcV1Definitions, reader)
        one.connect()
        opened.append(one)
        return one

    reference = EndpointReferenceType()
    reference.Address = f"{url}/soap"
    hosted = HostedServiceType()
    hosted.EndpointReference = [reference]
    wanted = FilterType()
    wanted.text = action
    wanted.Dialect = "http://docs.oasis-open.org/ws-dd/ns/dpws/2009/01/Action"
    return ConsumerSubscription(
        MessageFactory(SdcV1Definitions, None, LOGGER), SdcV1Definitions.data_model, client,
        hosted, wanted, notify_to, end_to, "",
    )  # fmt: skip
