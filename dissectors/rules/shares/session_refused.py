"""Q004: a share session that the broker does not have, or whose epoch it does not expect."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas import error_name
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.share_acquisitions import APIS, SessionEpoch, ShareAcquisitions
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import client_address_label
from dissectors.trackers.triggers import FrameFlags

_ERRORS = (Error.SHARE_SESSION_NOT_FOUND, Error.INVALID_SHARE_SESSION_EPOCH)
_FINAL_EPOCH = -1
_MAX_EPOCH = (1 << 31) - 1


@rule(
    "Q004",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=APIS,
    only=FrameFlags.REFUSED,
    needs=(ShareAcquisitions,),
    since="0.1",
    blame="client",
)
def share_session_refused(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that members of a share group and brokers agree on the epoch of their share session.

    ## Why it matters
    A share session belongs to a member and a broker. Each request of the session has the next epoch: 0 opens it, -1
    closes it. After SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH the member must open a new session, and the
    acknowledgements in the refused request are lost: the records are delivered again.

    ## Usual cause
    A client that sends an epoch other than the next one, or continues a session after closing it or on a new
    connection; two clients with the same member id; or a broker that has restarted, or has evicted the session because
    it has more than group.share.max.share.sessions. The message says which: kproxy knows the epochs of the session.

    A session that a member continues on a new connection has severity info: clients then open a new session.

    ## Example
    ```story
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": []}
    < {"acquisition_lock_timeout_ms": 30000, "responses": []}
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 2, "topics": []}
    < {"error_code": 123}
    ```
    The broker has lost the session:
    ```story
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": []}
    < {"acquisition_lock_timeout_ms": 30000, "responses": []}
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "topics": []}
    < {"error_code": 122}
    ```

    ## Look-alikes
    The session is closed, and opened again:
    ```story
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": []}
    < {"acquisition_lock_timeout_ms": 30000, "responses": []}
    > ShareAcknowledge v1 {"group_id": "g", "member_id": "a", "share_session_epoch": -1, "topics": []}
    < {"responses": []}
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": []}
    < {"acquisition_lock_timeout_ms": 30000, "responses": []}
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "topics": []}
    < {"acquisition_lock_timeout_ms": 30000, "responses": []}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-932%3A+Queues+for+Kafka
    """
    message, request = event.message, event.request
    if message is None or request is None:
        return
    code, request_body = message.body.get("error_code"), request.message.body
    if code not in _ERRORS:
        return
    group, member, epoch = (
        request_body.get("group_id") or "",
        request_body.get("member_id") or "",
        request_body.get("share_session_epoch", 0),
    )
    sessions = connection.run.state(ShareAcquisitions).sessions
    own_session = sessions.get((connection.connection_id, group, member))
    other_session = next(
        (
            session
            for key, session in reversed(sessions.items())
            if key[1:] == (group, member) and session is not own_session
        ),
        None,
    )
    reason, blame, severity = _refusal_reason(
        epoch, own_session, other_session, event.at, midstream=connection.midstream
    )
    if reason:
        yield Problem(
            f"{message.api} of {client_address_label(connection)} in share group {group!r} was refused with "
            f"{error_name(code)}: {reason}",
            **locate(message, "error_code"),
            hint="open a new share session with ShareFetch and epoch 0, then add 1 with each request of the session"
            if blame == "client"
            else "check whether the broker restarted, and its group.share.max.share.sessions",
            blame=blame,
            severity=severity,
            cause=group,
        )


def _refusal_reason(
    epoch: int, own_session: SessionEpoch | None, other_session: SessionEpoch | None, at: int, *, midstream: bool
) -> tuple[str, str, Severity]:
    """Return why a session with this epoch is refused, whose fault it is, and how severe it is.

    `other_session` is on another connection.
    """
    if own_session is None:
        if other_session is not None:
            elapsed = duration(at - other_session.at)
            text = (
                f"it sent epoch {epoch} on a new connection, after epoch {other_session.epoch} on another one "
                f"{elapsed} before; the session ended with that connection"
            )
            return text, "client", Severity.INFO
        if midstream:
            return "", "client", Severity.INFO
        return f"it sent epoch {epoch}, but has opened no session on this connection", "client", Severity.WARNING
    own_elapsed = duration(at - own_session.at)
    if own_session.epoch == _FINAL_EPOCH:
        return f"it sent epoch {epoch}, but had closed its session {own_elapsed} before", "client", Severity.WARNING
    next_epoch = 1 if own_session.epoch == _MAX_EPOCH else own_session.epoch + 1
    if epoch in (next_epoch, _FINAL_EPOCH):
        if other_session is not None and other_session.at >= own_session.at:
            elapsed = duration(at - other_session.at)
            text = f"{other_session.client} used the same member id {elapsed} before (epoch {other_session.epoch})"
            return text, "client", Severity.WARNING
        text = (
            f"epoch {epoch} continues the session, whose epoch {own_session.epoch} the broker accepted "
            f"{own_elapsed} before"
        )
        return f"{text}: it has lost the session", "broker", Severity.WARNING
    return f"it sent epoch {epoch}, but the next one is {next_epoch}", "client", Severity.WARNING
