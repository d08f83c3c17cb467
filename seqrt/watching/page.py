"""A page of metrics as Prometheus reads it, by the ``prometheus-client`` package (extra ``metrics``)."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from seqrt.errors import remote_error
from seqrt.watching.buckets import Buckets
from seqrt.watching.counts import Requests

MISSING: Final = 'install it where this runs: pip install "seqrt[metrics]"'


@dataclass(frozen=True)
class Page:
    """What is answered.

    Attributes:
        body: It.
        media: Its content type.
    """

    body: bytes
    media: str


class Families:
    """Metrics of one page, gathered; each is named ``<prefix>_<name>``.

    Args:
        prefix: "seqrt_worker", "seqrt_gateway", "seqrt_robot".

    Raises:
        InternalError: The package is not installed (``dependency_missing``).
    """

    def __init__(self, prefix: str) -> None:
        self._core = _core()
        self._prefix = prefix
        self.made: list[Any] = []

    def gauge(self, name: str, what: str, value: float | Mapping[str, float], label: str = "") -> None:
        """A figure as it is now; one for each value of ``label``."""
        self._simple(self._core.GaugeMetricFamily, name, what, value, label)

    def counter(self, name: str, what: str, value: float | Mapping[str, float], label: str = "") -> None:
        """A count that only rises; ``_total`` is added to its name."""
        self._simple(self._core.CounterMetricFamily, name, what, value, label)

    def info(self, name: str, what: str, **labels: str) -> None:
        """Words about the process, as labels of a 1; ``_info`` is added to its name."""
        made = self._core.InfoMetricFamily(f"{self._prefix}_{name}" if name else self._prefix, what)
        made.add_metric([], labels)
        self.made.append(made)

    def histogram(self, name: str, what: str, value: Buckets | Mapping[str, Buckets], label: str = "") -> None:
        """Samples between bounds; a histogram for each value of ``label``."""
        made = self._family(self._core.HistogramMetricFamily, name, what, [label] if label else [])
        for key, buckets in value.items() if isinstance(value, Mapping) else [("", value)]:
            made.add_metric([key] if label else [], buckets=buckets.cumulative(), sum_value=buckets.total)

    def requests(self, requests: Requests) -> None:
        """A server's requests."""
        ended = self._family(
            self._core.CounterMetricFamily,
            "requests",
            "Requests that are over, by how: ok, left (the client was gone), or the code of the refusal.",
            ["endpoint", "code"],
        )
        for labels, count in sorted(requests.ended.items()):
            ended.add_metric(labels, count)
        self.counter("received_bytes", "Bodies of requests read, in bytes.", requests.received, "endpoint")
        self.counter("sent_bytes", "Bodies of answers, in bytes.", requests.sent, "endpoint")

    def _simple(self, kind: Any, name: str, what: str, value: float | Mapping[str, float], label: str) -> None:
        made = self._family(kind, name, what, [label] if label else [])
        for key, number in value.items() if isinstance(value, Mapping) else [("", value)]:
            made.add_metric([key] if label else [], number)

    def _family(self, kind: Any, name: str, what: str, labels: list[str]) -> Any:
        made = kind(f"{self._prefix}_{name}", what, labels=labels)
        self.made.append(made)
        return made


def page(families: Families, accept: str = "") -> Page:
    """The page of ``families``, with what the process takes (where the system tells), in the form asked for.

    Args:
        families: What it shows.
        accept: The request's ``Accept``; else the text format.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Made(families.made))
    ProcessCollector(registry=registry)
    encode, media = choose_encoder(accept)
    return Page(encode(registry), media)


def warm() -> None:
    """Import the package before it is asked for, if it is there: that takes tens of milliseconds of the loop's time."""
    with suppress(ImportError):
        importlib.import_module("prometheus_client.exposition")


class _Made:
    """Metrics as the package's registries collect them."""

    def __init__(self, made: Iterable[Any]) -> None:
        self._made = made

    def collect(self) -> Iterable[Any]:
        return self._made


def _core() -> Any:
    try:
        return importlib.import_module("prometheus_client.core")
    except ImportError as missing:
        raise remote_error(
            "dependency_missing", "metrics need the package prometheus-client", hint=MISSING
        ) from missing
