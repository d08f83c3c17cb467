"""OpenTelemetry's spans, where the program has a tracer provider; one look-up in a dict, and nothing, where not.

Nothing is imported that the program has not imported itself: whoever sets a provider up has. Robot and worker share
a trace by the W3C header ``traceparent``, and the attribute ``seqrt.request_id``::

    robot act ── worker act ─┬─ read
      (client)     (server)  ├─ wait for frames
                             ├─ queue
                             ├─ infer        one a call of the policy's code; linked with each act of a batch
                             └─ answer
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

from seqrt.errors import RemoteError
from seqrt.watching.counts import OK, Phase

_REQUEST_ID: Final = "seqrt.request_id"
_NAMES: Final[Mapping[Phase, str]] = {
    "read": "read",
    "repeat": "wait for the same act",
    "frames": "wait for frames",
    "queue": "queue",
    "answer": "answer",
}
"""What the span of a phase is called; "infer" has its own."""


class Span(Protocol):
    """A span, or none."""

    def current(self) -> AbstractContextManager[None]:
        """Make it the current one within."""
        ...

    def phase(self, phase: Phase) -> Span:
        """Begin one below it."""
        ...

    def infer(self, acts: Sequence[tuple[str, Span]]) -> AbstractContextManager[None]:
        """One around a call of the policy's code for ``acts``, the current one within: what it traces lies below."""
        ...

    def end(self, code: str) -> None:
        """It is over, as ``code`` says."""
        ...


class _Nowhere:
    """No span."""

    def current(self) -> AbstractContextManager[None]:
        return _NOTHING

    def phase(self, phase: Phase) -> Span:
        return self

    def infer(self, acts: Sequence[tuple[str, Span]]) -> AbstractContextManager[None]:
        return _NOTHING

    def end(self, code: str) -> None:
        return None


_NOTHING: Final = nullcontext()
NOWHERE: Final[Span] = _Nowhere()
"""Where the program has no tracing."""


class _Open:
    """A span of OpenTelemetry's.

    Args:
        api: ``opentelemetry.trace``.
        tracer: Makes spans.
        span: The span.
    """

    __slots__ = ("_api", "_tracer", "span")

    def __init__(self, api: Any, tracer: Any, span: Any) -> None:
        self._api, self._tracer, self.span = api, tracer, span

    @contextmanager
    def current(self) -> Iterator[None]:
        with self._api.use_span(self.span, record_exception=False, set_status_on_exception=False):
            yield

    def phase(self, phase: Phase) -> Span:
        name = _NAMES.get(phase)
        return NOWHERE if name is None else self._below(name)

    @contextmanager
    def infer(self, acts: Sequence[tuple[str, Span]]) -> Iterator[None]:
        spans = [act.span for _, act in acts if isinstance(act, _Open)]
        # The parent is one that is recorded: of a batch some may be left out by sampling, and the call is in it still.
        parent = next((span for span in spans if span.is_recording()), self.span)
        links = [self._api.Link(span.get_span_context()) for span in spans] if len(spans) > 1 else []
        attributes = {"seqrt.acts": len(acts), "seqrt.request_ids": [request_id for request_id, _ in acts]}
        call = _Open(self._api, self._tracer, parent)._below("infer", attributes, links)
        for span in spans:
            if span is not parent:
                span.add_link(call.span.get_span_context())
        try:
            with call.current():
                yield
        finally:
            call.end(OK)

    def end(self, code: str) -> None:
        if code != OK:
            self.span.set_attribute("seqrt.code", code)
            self.span.set_status(self._api.StatusCode.ERROR, code)
        self.span.end()

    def _below(self, name: str, attributes: dict[str, Any] | None = None, links: Sequence[Any] = ()) -> _Open:
        context = self._api.set_span_in_context(self.span)
        return _Open(
            self._api, self._tracer, self._tracer.start_span(name, context, attributes=attributes, links=links)
        )


class Tracing:
    """The program's tracer provider."""

    def __init__(self, api: Any, provider: Any) -> None:
        self._api, self._tracer = api, provider.get_tracer("seqrt")

    def served_act(self, where: str, request_id: str, headers: Mapping[str, str] | None) -> Span:
        """The span of an act where it is served: below the current span, else the sender's."""
        api, context = self._api, None
        if headers is not None and not api.get_current_span().get_span_context().is_valid:
            context = _propagator().extract(headers)
        kind = api.SpanKind.INTERNAL if headers is None else api.SpanKind.SERVER
        return self._opened(f"{where} act", context, kind, request_id)

    def robot_act(self, request_id: str) -> Span:
        """The span of an act at the robot."""
        return self._opened("robot act", None, self._api.SpanKind.CLIENT, request_id)

    def _opened(self, name: str, context: Any, kind: Any, request_id: str) -> Span:
        span = self._tracer.start_span(name, context, kind=kind, attributes={_REQUEST_ID: request_id})
        return _Open(self._api, self._tracer, span)


def tracing() -> Tracing | None:
    """The program's, None where it has set none up."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    provider = api.get_tracer_provider()
    return None if isinstance(provider, api.ProxyTracerProvider) else Tracing(api, provider)


@contextmanager
def robot_act(request_id: str) -> Iterator[None]:
    """Trace one act of the robot's, over all its tries; what is sent within carries its context."""
    found = tracing()
    if found is None:
        yield
        return
    span, code = found.robot_act(request_id), OK
    try:
        with span.current():
            yield
    except BaseException as raised:
        code = raised.code if isinstance(raised, RemoteError) else type(raised).__name__
        raise
    finally:
        span.end(code)


def carried() -> dict[str, str]:
    """The headers that carry the current span's context, W3C's ``traceparent`` and ``tracestate``; none without one."""
    api: Any = sys.modules.get("opentelemetry.trace")
    fields: dict[str, str] = {}
    if api is not None and api.get_current_span().get_span_context().is_valid:
        _propagator().inject(fields)
    return fields


def _propagator() -> Any:
    # Not the program's global one: its baggage may hold what is not the worker's business.
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
