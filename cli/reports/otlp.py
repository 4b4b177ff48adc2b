"""A run's trace for OpenTelemetry: sent by its exporter, or as OTLP/JSON. Only this module imports the SDK."""

from __future__ import annotations

import logging
import re
from base64 import b64decode
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from faber_ledger import __version__
from faber_ledger.files.text import escape
from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable, UsageFailed
from faber_ledger.runs.git_query import GitQuery

if TYPE_CHECKING:
    from faber_ledger.cli.reports.trace import Attributes, Trace

CONVENTIONS = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
SCOPE = InstrumentationScope("faber_ledger", __version__, CONVENTIONS)
PATH = "/v1/traces"
MOST_AT_ONCE = 500  # spans in a request
# URLs of a remote; a password with a slash would be a part of the path, in which nothing may follow an @.
WEB = re.compile(r"((?:https?|ssh|git)://)(?:[^/?#]*@)?([^@/?#]+(?:/[^@?#]*)?)(?:[?#][^@]*)?\Z")
SCP = re.compile(r"\A(?:[^@:/]*@)?([^@:/]+):/?([^@:]+)\Z")
IDS = ("traceId", "spanId", "parentSpanId")
TOO_MANY_REQUESTS = 429
KEY_HINT = ", and what its server wants in OTEL_EXPORTER_OTLP_HEADERS"


class Sender:
    """Sends spans to an endpoint."""

    def __init__(self, endpoint: str, repository: str | None) -> None:
        """Take the endpoint's URL, with or without `/v1/traces`, and the repository's; raises UsageFailed."""
        complaints = _Complaints()
        logging.getLogger("opentelemetry").addHandler(complaints)  # which show headers; our errors say what went wrong
        self._address, self._repository, self._session = address_of(endpoint), repository, _Session()
        self._exporter = OTLPSpanExporter(self._address, session=self._session)
        if complaints.count:
            message = "OpenTelemetry does not understand one of its variables OTEL_EXPORTER_OTLP_…"
            raise UsageFailed(message, hint="OTEL_EXPORTER_OTLP_HEADERS is NAME=VALUE,NAME=VALUE")

    def send(self, trace: Trace) -> None:
        """Send the spans, the last one alone and after all others; raises ServerUnavailable, ServerRefused."""
        spans = to_spans(trace, self._repository)
        children, last = spans[:-1], spans[-1:]
        for begin in range(0, len(children), MOST_AT_ONCE):
            self._send(children[begin : begin + MOST_AT_ONCE])
        self._send(last)

    def _send(self, spans: list[ReadableSpan]) -> None:
        if not spans:
            return
        self._exporter.export(spans)  # what it returns is success for a redirect, too, which it does not follow
        code = self._session.code
        is_taken = 200 <= code < 300
        refused = _refused_spans(self._session.answer) if is_taken else None
        if is_taken and not refused:
            return
        why = f"HTTP status {code}" if code else self._session.error
        message = f"{escape(self._address.partition('?')[0])} did not take {refused or 'the spans: ' + why}"
        hint = f"check the endpoint{KEY_HINT if code in (401, 403) else ''}; run the command again"
        is_final = refused or (300 <= code < 500 and code != TOO_MANY_REQUESTS)
        raise (ServerRefused if is_final else ServerUnavailable)(message, hint=hint)


def _refused_spans(answer: bytes) -> str | None:
    """Return how many spans an answer of success refuses, and why; None if it refuses none."""
    try:
        partial = ExportTraceServiceResponse.FromString(answer).partial_success
    except DecodeError:
        return None
    count = partial.rejected_spans
    return f"{count} of the spans: {escape(partial.error_message) or 'it does not say why'}" if count else None


class _Complaints(logging.Handler):
    """Counts what the exporter complains of, and prints nothing."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        self.count += 1


class _Session(requests.Session):
    """Remembers how the last request ended: the answer and its code, or 0 and the name of the error."""

    code, error, answer = 0, "", b""

    def request(self, *arguments: Any, **named: Any) -> requests.Response:
        """Make a request."""
        self.code, self.answer = 0, b""
        try:
            answer = super().request(*arguments, **named)
        except requests.RequestException as error:
            self.error = type(error).__name__
            raise
        self.code, self.answer = answer.status_code, answer.content
        return answer


def address_of(endpoint: str) -> str:
    """Return the address to which traces are sent; raises UsageFailed if it is not a web address, or has a password."""
    try:
        parts = urlsplit(endpoint)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UsageFailed("--otlp is not a web address", hint="it has the form http://HOST:4318")
    if "@" in endpoint:
        hint = "leave user and password out, and set OTEL_EXPORTER_OTLP_HEADERS"
        raise UsageFailed("--otlp has a password or user, which the list of processes shows", hint=hint)
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(PATH) else path + PATH, fragment="").geturl()


def repository_of(root: str) -> str | None:
    """Return the URL of the project's remote without user, password and query; None for a path, or if it is unclear."""
    url = GitQuery(["config", "--get", "remote.origin.url"], root).answer() or ""
    found = WEB.match(url)
    short = SCP.match(url)
    return f"{found[1]}{found[2]}" if found else f"ssh://{short[1]}/{short[2]}" if short else None


def to_spans(trace: Trace, repository: str | None) -> list[ReadableSpan]:
    """Return a trace's spans as the SDK has them."""
    common = {"service.name": "faber-ledger", **({"vcs.repository.url.full": repository} if repository else {})}
    machines = {one.machine for one in trace.spans}
    resources = {name: Resource(_encodable({**common, **trace.machines.get(name, {})})) for name in machines}
    return [
        ReadableSpan(
            name=_text(one.name),
            context=_context(trace.trace_id, one.span_id),
            parent=_context(trace.trace_id, one.parent_id) if one.parent_id else None,
            resource=resources[one.machine],
            attributes=_encodable(one.attributes),
            events=[Event(_text(event.name), _encodable(event.attributes), event.at) for event in one.events],
            status=Status(StatusCode.ERROR if one.is_failed else StatusCode.UNSET),
            start_time=one.start,
            end_time=one.end,
            instrumentation_scope=SCOPE,
        )
        for one in trace.spans
    ]


def to_json(trace: Trace, repository: str | None) -> dict[str, Any]:
    """Return a trace as OTLP/JSON, in which ids are hexadecimal and enums are numbers."""
    message = encode_spans(to_spans(trace, repository))
    found: dict[str, Any] = MessageToDict(message, use_integers_for_enums=True)
    for resource in found.get("resourceSpans", ()):
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                span.update({name: b64decode(span[name]).hex() for name in IDS if name in span})
    return found


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _encodable(attributes: Attributes) -> Attributes:
    return {name: _value(value) for name, value in attributes.items()}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(one) for one in value]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """Return a text that UTF-8 can hold: JSON may have half of a pair."""
    return text.encode("utf-8", "replace").decode()
