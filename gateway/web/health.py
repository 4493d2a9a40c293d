"""Liveness, readiness and metrics."""

import time
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from adapters import AdapterState
    from gateway.delivery import Conservation
    from gateway.replicas.partitions import Replicas
    from gateway.server.application import Gateway, MailboxCounts, Snapshot, TcpCounts
    from gateway.store.spool import SpoolSize


def health_routes(gateway: "Gateway") -> APIRouter:
    """``/healthz`` and ``/readyz``."""
    router = APIRouter()

    @router.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return JSONResponse({"status": "alive"})

    @router.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        state = gateway.readiness()
        return JSONResponse(state, 200 if state["ready"] else 503)

    return router


def metrics_routes(gateway: "Gateway") -> APIRouter:
    """``/metrics``."""
    router = APIRouter()

    @router.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        registry = CollectorRegistry()
        registry.register(_Collector(await gateway.snapshot()))
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


_ARCHIVE = {
    "rows": "Notifications in finished files of the archive.",
    "files": "Files of the archive that are finished.",
    "octets": "Octets of the finished files of the archive.",
    "dropped": "Notifications that the archive did not take.",
}


class _Collector:
    """One snapshot, as Prometheus reads it."""

    def __init__(self, snapshot: "Snapshot") -> None:
        self._snapshot = snapshot

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        taken = self._snapshot
        families: list[CounterMetricFamily | GaugeMetricFamily] = [
            CounterMetricFamily(
                "dragoman_accepted", "Notifications accepted from publishers.", taken.accepted
            ),
            CounterMetricFamily(
                "dragoman_filter_over_budget",
                "Deliveries whose filter had no verdict within its budget.",
                taken.filter_over_budget,
            ),
            CounterMetricFamily(
                "dragoman_attachments_dropped",
                "Attachments left out for want of a packaging that the consumer reads.",
                taken.attachments_dropped,
            ),
        ]
        for name, value in taken.archive.items():
            families.append(CounterMetricFamily(f"dragoman_archive_{name}", _ARCHIVE[name], value))
        for name, text, value in (
            ("subscriptions", "Subscriptions.", taken.subscriptions),
            ("unsettled", "Messages unsettled in the messaging system.", taken.unsettled),
            (
                "open_breakers",
                "Destinations and subscriptions to which only a probe is sent now and then.",
                taken.open_breakers,
            ),
            (
                "failing_subscriptions",
                "Subscriptions whose last attempt, by this gateway, failed.",
                taken.failing,
            ),
            ("store_writable", "Whether the store takes writes.", int(taken.store_writable)),
        ):
            families.append(GaugeMetricFamily(f"dragoman_{name}", text, value))
        families += _of_mailboxes(taken.mailboxes)
        families += _of_tcp(taken.tcp)
        if taken.conservation is not None:
            families += _of_conservation(taken.conservation)
        if taken.broker is not None:
            families += _of_broker(taken.broker)
        if taken.spool is not None:
            families += _of_spool(taken.spool)
        if taken.replicas is not None:
            families += _of_replicas(taken.replicas)
        for name, text, label, values in (
            ("requests", "SOAP requests, by operation.", "operation", taken.requests),
            ("refusals", "Requests refused, by reason.", "reason", taken.refusals),
            ("attempts", "Delivery attempts, by verdict.", "verdict", taken.attempts),
        ):
            family = CounterMetricFamily(f"dragoman_{name}", text, labels=[label])
            for key, value in sorted(values.items()):
                family.add_metric([key], value)
            families.append(family)
        return families


def _of_conservation(law: "Conservation") -> list[CounterMetricFamily | GaugeMetricFamily]:
    families: list[CounterMetricFamily | GaugeMetricFamily] = []
    for name in ("matched", "delivered", "dead", "expired", "cancelled", "skipped"):
        families.append(
            CounterMetricFamily(
                f"dragoman_{name}", f"Deliveries {name}.", getattr(law.totals, name)
            )
        )
    families.append(
        CounterMetricFamily(
            "dragoman_dead_letters_purged", "Dead letters forgotten.", law.letters.purged
        )
    )
    for name, text, value in (
        ("waiting", "Deliveries that wait.", law.waiting),
        ("in_flight", "Deliveries under way.", law.in_flight),
        ("dead_letters", "Dead letters kept.", law.dead_letters),
        (
            "dead_letters_bytes",
            "Bytes that count for the bounds of dead letters.",
            law.letters.octets,
        ),
        ("conservation_error", "What the conservation law leaves over; 0 at rest.", law.error),
    ):
        families.append(GaugeMetricFamily(f"dragoman_{name}", text, value))
    return families


def _of_tcp(counts: "TcpCounts") -> list[CounterMetricFamily | GaugeMetricFamily]:
    connections = GaugeMetricFamily(
        "dragoman_soap_tcp_connections", "Connections of SOAP.TCP.", labels=["opened_by"]
    )
    connections.add_metric(["peers"], counts.inbound)
    connections.add_metric(["us"], counts.outbound)
    refused = CounterMetricFamily(
        "dragoman_soap_tcp_refused",
        "Connections of SOAP.TCP that were ended for what came on them.",
        labels=["reason"],
    )
    for reason, value in sorted(counts.refused.items()):
        refused.add_metric([reason], value)
    return [
        connections,
        refused,
        CounterMetricFamily(
            "dragoman_soap_tcp_messages", "Messages that came by SOAP.TCP.", counts.messages
        ),
        CounterMetricFamily(
            "dragoman_soap_tcp_faults",
            "Faults about one-way messages by SOAP.TCP: only the log was told.",
            counts.faults,
        ),
    ]


def _of_mailboxes(counts: "MailboxCounts") -> list[CounterMetricFamily | GaugeMetricFamily]:
    families: list[CounterMetricFamily | GaugeMetricFamily] = [
        CounterMetricFamily(
            "dragoman_mailbox_stored", "Messages that others put into mailboxes.", counts.stored
        ),
        CounterMetricFamily(
            "dragoman_mailbox_dropped",
            "Messages of mailboxes that found no room or no reader: they are dead letters.",
            counts.dropped,
        ),
    ]
    if counts.waiting is not None:
        names = ("mailboxes", "mailbox_messages", "mailbox_octets")
        texts = ("Mailboxes.", "Messages in mailboxes.", "Octets of the messages in mailboxes.")
        families += map(
            GaugeMetricFamily, (f"dragoman_{name}" for name in names), texts, counts.waiting
        )
    return families


def _of_broker(state: "AdapterState") -> list[CounterMetricFamily | GaugeMetricFamily]:
    return [
        GaugeMetricFamily(
            "dragoman_adapter_up", "Whether the broker is connected to.", int(state.connected)
        ),
        GaugeMetricFamily(
            "dragoman_adapter_blocked",
            "Whether the broker is there, but takes no messages.",
            int(state.blocked),
        ),
        CounterMetricFamily(
            "dragoman_adapter_reconnects", "Connections opened again.", state.reconnects
        ),
        CounterMetricFamily("dragoman_wrapped", "Native messages that were no XML.", state.wrapped),
    ]


def _of_spool(size: "SpoolSize") -> list[CounterMetricFamily | GaugeMetricFamily]:
    age = 0.0 if size.since is None else max(0.0, time.time() - size.since)
    return [
        GaugeMetricFamily(f"dragoman_spool_{name}", text, value)
        for name, text, value in (
            ("messages", "Notifications in the spool.", size.messages),
            ("octets", "Octets in the spool.", size.octets),
            ("oldest_seconds", "Since the oldest in the spool came.", age),
            ("refused", "Notifications in the spool that the broker refuses.", size.refused),
        )
    ]


def _of_replicas(share: "Replicas") -> list[CounterMetricFamily | GaugeMetricFamily]:
    labels = ["replica"]
    families: list[CounterMetricFamily | GaugeMetricFamily] = []
    for name, text, value in (
        ("replicas", "Gateways that share the work.", share.alive),
        ("partitions", "Partitions that are held.", len(share.ages)),
        ("keeps_house", "Whether this gateway does what is done once for all.", share.keeps_house),
    ):
        family = GaugeMetricFamily(f"dragoman_{name}", text, labels=labels)
        family.add_metric([share.replica], float(value))
        families.append(family)
    ages = GaugeMetricFamily(
        "dragoman_lease_age_seconds",
        "Since the lease of a partition was renewed.",
        labels=["replica", "partition"],
    )
    for partition, age in share.ages.items():
        ages.add_metric([share.replica, str(partition)], age)
    return [*families, ages]
