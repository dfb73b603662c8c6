"""L041: a forwarded message that does not have the layout of its version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dissectors.connections.connection import MIN_RESPONSE
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis import KnownDeviations, examine
from dissectors.diagnosis.diagnose import LIKELY_CONFIDENCE
from dissectors.edits import Edit
from dissectors.findings import Problem, Severity
from dissectors.messages.diagnosis_result import Rival
from dissectors.messages.locate import locate
from dissectors.messages.message import read_request, read_response
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@dataclass(slots=True)
class _ForwardedDeviations:
    """The known deviations of the messages that were forwarded in a run."""

    deviations: KnownDeviations = field(default_factory=KnownDeviations)


@rule("L041", severity=Severity.ERROR, events=(RequestReceived, ResponseReceived), apis=("Envelope",), since="0.1")
def envelope_layout(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the messages that brokers forward to the controller have the layout of their version.

    A broker puts a client's request, for example CreateTopics, into an Envelope, and so does the controller with its
    response.

    ## Why it matters
    The receiver reads the message inside like any other message: the client's request fails, and only the logs of
    broker and controller say why.

    ## Usual cause
    A proxy that rewrites forwarded messages; a client's request that the broker passes on unread.

    ## Example
    ```story
    # DeleteTopics v1 inside ends before timeout_ms
    > Envelope v0 {"request_data": "00 14 00 01 00 00 00 07 00 01 63 00 00 00 01 00 06 6f 72 64 65 72 73",
      "client_host_address": "0a 00 00 09"}
    ```

    ## Look-alikes
    ```story
    > Envelope v0 {"request_data": "00 14 00 01 00 00 00 07 00 01 63 00 00 00 01 00 06 6f 72 64 65 72 73 00 00 75 30",
      "client_host_address": "0a 00 00 09"}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-590
    """
    message = event.message
    if message is None or message.error is not None:
        return
    request_body = event.request_body if isinstance(event, ResponseReceived) else message.body
    request = _framed_message((request_body or {}).get("request_data"))
    if request is None:
        return
    name, forwarded = "request_data", read_request(request)
    if isinstance(event, ResponseReceived):
        name, response = "response_data", _framed_message(message.body.get("response_data"))
        if response is None:
            return
        forwarded = read_response(response, forwarded.api_key, forwarded.version)
    deviations = connection.run.state(_ForwardedDeviations).deviations
    inner_diagnosis = examine(forwarded, None, deviations, connection.server).diagnosis
    if inner_diagnosis is None:
        return
    location = locate(message, name)
    start = location["end"] - len(forwarded.frame)
    payload = f"{forwarded.api}{'Request' if forwarded.is_request else 'Response'} v{forwarded.version}"

    def embedded_edit(edit: Edit) -> Edit:
        return Edit.of("embedded_layout", name, payload=payload, edit=edit)

    diagnosis = replace(
        inner_diagnosis, edit=embedded_edit(inner_diagnosis.edit), path=name, start=start + inner_diagnosis.start,
        end=start + inner_diagnosis.end, layout=None,
        also=tuple(map(embedded_edit, inner_diagnosis.also)),
        rivals=tuple(Rival(embedded_edit(rival.edit), rival.confidence) for rival in inner_diagnosis.rivals),
        surplus=None,
    )  # fmt: skip
    yield Problem(
        f"in {name} of {message.api} v{message.version}: {inner_diagnosis.sentence}",
        diagnosis.start,
        diagnosis.end,
        name,
        inner_diagnosis.hint,
        blame="client" if message.is_request else "broker",
        severity=None if inner_diagnosis.confidence >= LIKELY_CONFIDENCE else Severity.WARNING,
        diagnosis=diagnosis,
    )


def _framed_message(data: bytes | None) -> bytes | None:
    """Return a forwarded message with a length prefix, or None if it is missing or shorter than any message."""
    return None if data is None or len(data) < MIN_RESPONSE else len(data).to_bytes(4, "big") + bytes(data)
