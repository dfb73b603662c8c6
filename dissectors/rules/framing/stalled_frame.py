"""M005: a frame whose remaining bytes do not arrive."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import INCOMPLETE_AFTER, FrameIncomplete
from dissectors.diagnosis.cast_lengths import CastLength, find_cast_length
from dissectors.findings import Problem, Severity
from dissectors.messages.message import Message
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.trackers.frame_alignment import FRAME_KINDS, WRITERS
from dissectors.trackers.state import ConnectionState

_SECONDS = INCOMPLETE_AFTER // 1_000_000_000


def _prefix_problem(message: Message, surplus: int, *, is_final: bool) -> Problem:
    kind = FRAME_KINDS[not message.is_request]
    size = len(message.frame) - 4
    absence = "none follows" if is_final else f"none arrived for {_SECONDS} s"
    return Problem(
        f"the length prefix of {message.api} v{message.version} is {surplus} too large: the {kind} is complete without "
        f"{count_text(surplus, 'more byte')}, and {absence}",
        hint="the length prefix is the number of bytes after it; it does not count itself",
        severity=Severity.ERROR,
        blame=WRITERS[not message.is_request],
        expected=str(size),
        got=str(size + surplus),
        cause=f"{message.api} v{message.version} {kind}",
    )


def _cast_length_problem(message: Message, length: CastLength, missing: int) -> Problem:
    kind = FRAME_KINDS[not message.is_request]
    return Problem(
        f"{message.api} v{message.version} {kind}: {length.sentence}; the frame ends {count_text(missing, 'byte')} "
        "early for that reason",
        hint=length.hint,
        severity=Severity.ERROR,
        blame=WRITERS[not message.is_request],
        expected=str(length.size),
        got=str(length.written),
        cause=f"{message.api} v{message.version} {kind} cast",
    )


def _final_problem(event: FrameIncomplete) -> Problem:
    """Return what is wrong with a frame that was given as a whole, or with bytes after it."""
    kind, received = FRAME_KINDS[event.direction], event.have
    if not received:
        text = f"the {kind} is empty"
        hint = f"pass the whole {kind}, with its length prefix; an empty one often means that nothing was written"
    elif event.offset:
        text = f"the {kind} is longer than its length prefix says: {count_text(received, 'byte')} more"
        hint = "pass one frame; the length prefix is the number of bytes after it, and does not count itself"
    elif not event.size:
        text = f"the {kind} is only {count_text(received, 'byte')} long: a frame begins with four bytes of length"
        hint = f"pass the whole {kind}, with its length prefix"
    else:
        text = f"the {kind} is cut off: its length prefix says {event.size - 4} bytes, and {received - 4} follow"
        hint = "write the missing bytes, or the number of bytes after the length prefix into it"
    return Problem(
        text,
        start=event.offset,
        end=event.offset + received,
        hint=hint,
        severity=Severity.ERROR,
        blame=WRITERS[event.direction],
        cause=f"{kind} as a whole",
    )


@rule(
    "M005",
    severity=Severity.INFO,
    events=(FrameIncomplete,),
    since="0.1",
    blame="network",
)
def stalled_frame(event: FrameIncomplete, _: ConnectionState) -> Iterator[Problem]:
    """Reports that a frame stopped before its end and no more of it arrived for 30 seconds.

    ## Why it matters
    The receiver waits until a timeout, and so does everything behind this frame on the connection.

    ## Usual cause
    Large packets are lost: the path's MTU is smaller than configured (a VPN, an overlay network) and ICMP messages
    that would report this are dropped, so small requests work and large ones hang. A receiver that does not read its
    socket, such as a consumer that is busy with records, looks the same and is fine; hence the severity info. If the
    bytes are a complete message already, its length prefix is too large; that is an error. So is a length of records
    that was cast to 16 bits: it covers fewer bytes than the writer counted. In `dissectors.check_exchange`, which
    takes whole frames, everything that is missing or too much is an error.

    ## Example
    ```story
    > hex 00 00 00 0a 00 12        # six bytes of fourteen
    +31s
    ```
    ```story
    > hex 00 00 00 0e 00 12 00 00 00 00 00 2a ff ff    # ApiVersions v0: the length counts itself
    +31s
    ```

    ## Look-alikes
    ```story
    > hex 00 00 00 0a 00 12
    +29s
    > hex 00 00 00 00 00 2a
    +29s
    > hex ff ff
    +1m
    ```
    ```story
    > hex 00 00 00 0a 00 12
    close by=client how=reset
    +1m
    ```

    ## Sources
    https://www.rfc-editor.org/rfc/rfc2923#section-2.1
    """
    received, size, kind = event.have, event.size, FRAME_KINDS[event.direction]
    if event.whole is not None:
        yield _prefix_problem(event.whole, size - received, is_final=event.is_final)
        return
    if event.nearly_whole is not None and (length := find_cast_length(event.nearly_whole)):
        yield _cast_length_problem(event.nearly_whole, length, size - received)
        return
    if event.is_final:
        yield _final_problem(event)
        return
    amount_text = f"{received} of {size} bytes" if size else f"{received} bytes"
    yield Problem(
        f"a {kind} stopped after {amount_text}, and no more of it arrived for {_SECONDS} s",
        hint="if small frames pass and large ones hang, check the MTU along the path; otherwise check whether the "
        "receiver reads from its socket",
        cause=kind,
    )
