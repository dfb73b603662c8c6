"""Events as readable lines."""

from collections.abc import Iterable

from dissectors.connections.events import (
    BytesSkipped,
    ConnectionEnded,
    Direction,
    Event,
    FramingLost,
    ProxyHeaderReceived,
    RequestReceived,
    ResponseReceived,
    TokenReceived,
)

_ARROWS = {Direction.REQUEST: ">", Direction.RESPONSE: "<"}


def story(events: Iterable[Event]) -> list[str]:
    """Return one line per event: direction, kind, ``@`` and the offset, then anything unusual."""
    return [_line(event) for event in events]


def _line(event: Event) -> str:
    if isinstance(event, RequestReceived):
        message = event.message
        text = f"> {message.api} v{message.version} #{message.correlation_id} @{event.offset}+{event.size}"
        return text + ("" if event.expects_response else ", no response") + _damage(event.damaged)
    if isinstance(event, ResponseReceived):
        request = event.request
        target = f"to {request.message.api} @{request.offset}" if request else "to nobody"
        overtaken_text = f", {event.overtaken} passed over" if event.overtaken else ""
        return (
            f"< #{event.correlation_id} {target} @{event.offset}+{event.size}{overtaken_text}{_damage(event.damaged)}"
        )
    if isinstance(event, TokenReceived):
        return f"{_ARROWS[event.direction]} token @{event.offset}+{event.size}"
    if isinstance(event, FramingLost):
        return f"{_ARROWS[event.direction]} lost @{event.offset}: {event.protocol or 'unknown'}, {event.reason}"
    if isinstance(event, ProxyHeaderReceived):
        return f"> PROXY v{event.version} of {event.size} bytes"
    if isinstance(event, BytesSkipped):
        frames = f", {event.frames} frames" if event.frames else ""
        return f"{_ARROWS[event.direction]} {event.size} bytes skipped @{event.offset}{frames}: {event.reason}"
    assert isinstance(event, ConnectionEnded)
    unanswered = " ".join(f"#{request.message.correlation_id}" for request in event.unanswered)
    incomplete_text = "" if event.incomplete_frames == (0, 0) else f", half frames of {event.incomplete_frames}"
    return f"end, unanswered: {unanswered or 'none'}{incomplete_text}"


def _damage(reason: str | None) -> str:
    return f" ({reason})" if reason else ""
