"""A device of sdc11073 (IEEE 11073 SDC over DPWS 1.1): one thermometer, at an address of its own.

Nothing of it is announced on the network: whoever subscribes knows the address.
"""

import logging
import uuid
import warnings
from decimal import Decimal
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Of its own deprecated modules.
    from sdc11073.certloader import SSLContextContainer
    from sdc11073.definitions_sdc import SdcV1Definitions
    from sdc11073.mdib import ProviderMdib
    from sdc11073.provider.providerimpl import SdcProvider, provider_components_sync_factory
    from sdc11073.provider.subscriptionmgr import (
        PathDispatchingSubscriptionsManager,
        ReferenceParamSubscriptionsManager,
    )
    from sdc11073.xml_types.dpws_types import ThisDeviceType, ThisModelType

MESSAGES = "http://standards.ieee.org/downloads/11073/11073-10207-2017/message"
_MODEL = "http://standards.ieee.org/downloads/11073/11073-10207-2017/participant"
REPORTS = "http://standards.ieee.org/downloads/11073/11073-20701-2018/StateEventService"
METRICS = f"{REPORTS}/EpisodicMetricReport"
ALERTS = f"{REPORTS}/EpisodicAlertReport"
"""The actions of its reports."""
_MDIB = f"""
<m:GetMdibResponse xmlns:m="{MESSAGES}" xmlns:p="{_MODEL}" SequenceId="urn:uuid:1"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" MdibVersion="0">
  <m:Mdib SequenceId="urn:uuid:1" MdibVersion="0">
    <p:MdDescription><p:Mds Handle="mds"><p:Type Code="1"/>
      <p:Vmd Handle="vmd"><p:Type Code="2"/>
        <p:Channel Handle="channel"><p:Type Code="3"/>
          <p:Metric xsi:type="p:NumericMetricDescriptor" Handle="temperature" Resolution="0.1"
              MetricCategory="Msrmt" MetricAvailability="Cont">
            <p:Type Code="4"/><p:Unit Code="5"/>
          </p:Metric>
        </p:Channel>
      </p:Vmd></p:Mds></p:MdDescription>
    <p:MdState>
      <p:State xsi:type="p:MdsState" DescriptorHandle="mds"/>
      <p:State xsi:type="p:VmdState" DescriptorHandle="vmd"/>
      <p:State xsi:type="p:ChannelState" DescriptorHandle="channel"/>
      <p:State xsi:type="p:NumericMetricState" DescriptorHandle="temperature"/>
    </p:MdState>
  </m:Mdib>
</m:GetMdibResponse>
"""


class _Unannounced:
    """Stands where it looks for other devices."""

    active_address = "127.0.0.1"

    def publish_service(self, *_: Any) -> None:
        """Announce nothing."""

    def clear_service(self, _: str) -> None:
        """Take nothing back."""


class Device:
    """One that runs; *by_parameters*: subscriptions are named by reference parameters, not by the
    path of their manager; *tls*: its contexts for mutual TLS, as server and as client."""

    def __init__(
        self, *, by_parameters: bool = False, tls: SSLContextContainer | None = None
    ) -> None:
        logging.getLogger("sdc").setLevel(logging.CRITICAL)
        components = provider_components_sync_factory()
        manager = (
            ReferenceParamSubscriptionsManager
            if by_parameters
            else PathDispatchingSubscriptionsManager
        )
        components.subscriptions_manager_class = {"StateEvent": manager, "Set": manager}
        self._mdib = ProviderMdib.from_string(_MDIB.encode(), SdcV1Definitions)
        self._provider = SdcProvider(
            _Unannounced(),
            ThisModelType("Dragoman", "http://example.org", "Thermometer"),
            ThisDeviceType("Thermometer"),
            self._mdib,
            epr=uuid.uuid4(),
            ssl_context_container=tls,
            socket_timeout=10,
            components=components,
        )
        self._provider.start_all(start_rtsample_loop=False)
        self._runs = True

    @property
    def url(self) -> str:
        """The address at which its reports are subscribed to."""
        return f"{self._provider.get_xaddrs()[0]}/StateEvent"

    @property
    def subscriptions(self) -> int:
        managers = self._provider._subscriptions_managers.values()
        return sum(one.is_valid for each in managers for one in each._subscriptions.objects)

    def measure(self, value: str) -> None:
        """Report a value to all who subscribed; they have it on return."""
        with self._mdib.metric_state_transaction() as transaction:
            state: Any = transaction.get_state("temperature")
            if state.MetricValue is None:
                state.mk_metric_value()
            state.MetricValue.Value = Decimal(value)

    def stop(self) -> None:
        """Say that it goes, and go."""
        if self._runs:
            self._runs = False
            self._provider.stop_all()
