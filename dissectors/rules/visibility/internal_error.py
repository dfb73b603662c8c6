"""K007: an error in kproxy itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from dissectors import embedded
from dissectors.connections.events import InspectionFailed
from dissectors.embedded.record_data import record_field_names
from dissectors.findings import Problem, Severity
from dissectors.messages import secret_fields
from dissectors.messages.message import Message
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule("K007", severity=Severity.ERROR, events=(InspectionFailed,), since="0.1")
def internal_error(event: InspectionFailed, _: ConnectionState) -> Iterator[Problem]:
    """Reports that kproxy failed on a frame because of a bug in kproxy, and what to include in a bug report.

    ## Why it matters
    The inspection of this frame is incomplete: findings may be missing. Content that could not be decoded is omitted,
    and ``not_decoded`` gives the reason. Other frames are not affected, and the relay forwarded the frame unchanged.

    ## Usual cause
    A bug in kproxy that only an unusual frame triggers. Each bug is reported once per run; repeats are counted. Please
    report it with the text of the finding. If you can share the frame, attach it: the hint gives its size and SHA-256,
    so that you can find it. If a message may hold a secret, the text and the hash are omitted.

    ## Example
    ```story
    > ApiVersions v0
    fail LookupError
    ```

    ## Look-alikes
    ```story
    > hex 00 00 00 0a  00 12 00 00  00 00 00 01  00 05    # a truncated frame: a fault of its sender
    ```

    ## Sources
    https://docs.python.org/3/library/exceptions.html#Exception
    """
    failure = event.failure
    message = event.frame_message
    attachment = "it"
    text = str(failure)
    if message is not None:
        attachment = f"it with the frame ({len(message.frame)} bytes"
        if _may_hold_secrets(message):
            text = failure.title
            attachment += ")"
        else:
            attachment += f", SHA-256 {hashlib.sha256(message.frame).hexdigest()[:16]})"
    yield Problem(
        text,
        hint=f"this is a bug in kproxy, not in your traffic: please report {attachment}",
        got=f"raised at {', '.join(failure.places)}" if failure.places else None,
        cause=f"{failure.step} {failure.kind} {failure.places[-1:]}",
    )


def _may_hold_secrets(message: Message) -> bool:
    """Whether an exception's text may contain part of a secret, or of a record, which may be withheld or masked."""
    try:
        if record_field_names(message):
            return True
        return secret_fields.may_hold_secrets(message) or embedded.holds_secret_topic(message)
    except Exception:  # noqa: BLE001  # this may be the step that failed
        return True
