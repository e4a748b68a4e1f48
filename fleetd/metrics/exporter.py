"""The exposition: rows in, Prometheus text out."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from threading import Lock

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from fleetd.core.certificates.profile import Tier
from fleetd.metrics import names
from fleetd.metrics.names import Kind
from fleetd.metrics.rows import BUCKETS, Distribution, Sample, distributions, samples
from fleetd.ports import Clock

FRESH = 10.0
"""Seconds for which one reading serves all that ask: several Prometheus servers cost the database no more than one."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """An authority as metrics name it."""

    name: str
    fingerprint: str
    until: float
    """Seconds since the epoch."""


@dataclass(eq=False)
class Exporter(Collector):
    """Answers scrapes from the store."""

    sessions: sessionmaker[Session]
    clock: Clock
    version: str
    authorities: Callable[[], Iterable[Issuer]] = tuple
    root_list_end: Callable[[], datetime | None] = lambda: None
    server_end: Callable[[], datetime | None] = lambda: None
    queue_length: Callable[[], int | None] = lambda: None
    _lock: Lock = field(default_factory=Lock)
    _text: bytes = b""
    _until: float = 0.0

    def exposition(self) -> tuple[bytes, str]:
        """Return the text and its content type."""
        with self._lock:
            if time.monotonic() >= self._until:
                registry = CollectorRegistry()
                registry.register(self)
                self._text, self._until = generate_latest(registry), time.monotonic() + FRESH
            return self._text, CONTENT_TYPE_LATEST

    def describe(self) -> Iterable[Family]:
        """Name nothing beforehand: registering reads no rows."""
        return []

    def collect(self) -> Iterator[Family]:
        """Yield every metric family."""
        found = [Sample(names.BUILD, 1, (self.version,))]
        spread: list[Distribution] = []
        issuers = list(self.authorities())
        found += [Sample(names.AUTHORITY, issuer.until, (issuer.name,)) for issuer in issuers]
        if (list_end := self.root_list_end()) is not None:
            found.append(Sample(names.LIST_END, list_end.timestamp(), (Tier.ROOT.value,)))
        if (server_end := self.server_end()) is not None:
            found.append(Sample(names.SERVER_END, server_end.timestamp()))
        length = self.queue_length()
        found += [] if length is None else [Sample(names.QUEUE, length)]
        try:
            with self.sessions() as session:
                read = list(samples(session, self.clock.now(), {issuer.fingerprint: issuer.name for issuer in issuers}))
                spread = distributions(session)
        except SQLAlchemyError:
            found.append(Sample(names.DATABASE_UP, 0))
        else:
            found += [Sample(names.DATABASE_UP, 1), *read]
        yield from _families(found)
        yield from _histograms(spread)


def _families(found: list[Sample]) -> Iterator[Family]:
    for metric in names.METRICS:
        mine = [sample for sample in found if sample.metric is metric]
        if not mine:
            continue
        made = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
        family = made(metric.name, metric.help, labels=metric.labels)
        for sample in mine:
            family.add_metric(sample.labels, sample.value)
        yield family


def _histograms(spread: list[Distribution]) -> Iterator[Family]:
    for metric in names.METRICS:
        mine = [each for each in spread if each.metric is metric]
        if not mine:
            continue
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for each in mine:
            bounds = [*(str(float(bound)) for bound in BUCKETS), "+Inf"]
            family.add_metric(each.labels, list(zip(bounds, accumulate(each.counts), strict=True)), each.total)
        yield family
