"""X008: a login that fails."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.connections.addresses import host_of
from dissectors.connections.events import ConnectionEnded, ResponseReceived, TokenReceived
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.messages import secret_fields
from dissectors.messages.locate import ProblemLocation, locate
from dissectors.messages.message import Message
from dissectors.rules import rule
from dissectors.sasl.messages import OAuthBearerClientFirst, ServerRefusal
from dissectors.schemas.codes import Error
from dissectors.trackers.authentication import Authentication, SaslPhase
from dissectors.trackers.connection_endings import CAUSED_WITHIN
from dissectors.trackers.recurrence import SECOND, Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger

_THRESHOLD = 3
_MAX_TEXT = 160
#: X017 and the version rules report these.
_NOT_LOGIN_FAILURES = frozenset({Error.NONE, Error.ILLEGAL_SASL_STATE, Error.UNSUPPORTED_VERSION})
_CREDENTIALS_HINT = "check user, password and sasl.mechanism; the broker's log names the user"
_HINTS = {
    "OAUTHBEARER": "check the token's issuer, audience, scope and expiry against sasl.oauthbearer.* of the broker",
    "GSSAPI": "check the client's principal and keytab, sasl.kerberos.service.name and the clocks of both",
}
_SCRAM_HINT = (
    "check user and password, and that the user has credentials for {} (kafka-configs --describe --entity-type users)"
)
_RAW_HINT = (
    "; a server or proxy that knows only SaslAuthenticate closes here, too: let the client use SaslHandshake v1, or "
    "let the server not advertise v0"
)
_DELEGATED_HINT = "check that the delegation token has not expired, and that the password is its HMAC"


class _Failures(Recurrence):
    """Counts failed logins by server, client and user."""


@rule(
    "X008",
    severity=Severity.ERROR,
    events=(ResponseReceived, ConnectionEnded),
    apis=("SaslAuthenticate",),
    also=(Trigger((TokenReceived,)),),
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def sasl_auth_failed(
    event: ResponseReceived | ConnectionEnded | TokenReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that every login succeeds.

    ## Why it matters
    Without a login, a client can do nothing. Clients retry the same credentials forever, which fills the broker's log
    and may lock the account. The third consecutive failure of one user and client is reported once more, with the
    count.

    ## Usual cause
    A wrong or rotated password, a user that does not exist for this mechanism (SCRAM users are created per mechanism),
    or an expired token. The broker's log names the user: kproxy does not print what a failed login sent, because
    people type passwords into name fields. OAUTHBEARER fails in two steps: the server answers the token with JSON that
    has a status, reported here; the client acknowledges it, and the login fails.

    ## Example
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"error_code": 58, "error_message": "Authentication failed: Invalid username or password"}
    close by=server how=fin
    ```
    An expired bearer token:
    ```story
    > SaslHandshake v1 {"mechanism": "OAUTHBEARER"}
    < {"mechanisms": ["OAUTHBEARER"]}
    > SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 01 61 75 74 68 3d 42 65 61 72 65 72 20 78 01 01"}
    < {"auth_bytes": "7b 22 73 74 61 74 75 73 22 3a 22 69 6e 76 61 6c 69 64 5f 74 6f 6b 65 6e 22 7d"}
    > SaslAuthenticate v1 {"auth_bytes": "01"}
    < {"error_code": 58}
    ```
    After SaslHandshake v0 there is no error code; the broker just closes:
    ```story
    > SaslHandshake v0 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > hex 00 00 00 04 00 61 00 62
    close by=server how=fin
    ```

    A gateway that closes instead of answering:
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    close by=server how=fin
    ```

    ## Look-alikes
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {}
    close by=server how=fin
    2> SaslHandshake v0 {"mechanism": "PLAIN"}
    2< {"mechanisms": ["PLAIN"]}
    2> hex 00 00 00 04 00 61 00 62
    2 close by=client how=fin
    ```
    A client that ends while it waits for the answer:
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    close by=client how=reset
    ```

    A SCRAM login that fails because a nonce differs (X013):
    ```story
    > SaslHandshake v1 {"mechanism": "SCRAM-SHA-256"}
    < {"mechanisms": ["SCRAM-SHA-256"]}
    > SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 6e 3d 75 2c 72 3d 61 62"}
    < {"auth_bytes": "72 3d 61 62 63 2c 73 3d 51 51 3d 3d 2c 69 3d 34 30 39 36"}
    > SaslAuthenticate v1 {"auth_bytes": "63 3d 62 69 77 73 2c 72 3d 61 62 58 2c 70 3d 51 51 3d 3d"}
    < {"error_code": 58}
    ```

    ## Sources
    https://kafka.apache.org/protocol#sasl_handshake
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-152+-+Improve+diagnostics+for+SASL+authentication+failures
    """
    authentication = connection.state(Authentication)
    if authentication.without_handshake:
        return  # X023
    key = (connection.server, host_of(connection.client), connection.client_id, authentication.user)
    location: ProblemLocation = {}
    if isinstance(event, ConnectionEnded):
        reason = _failure_at_close(event, authentication)
    else:
        if authentication.phase is SaslPhase.DONE:
            connection.run.state(_Failures).forget(key)
        message = None if isinstance(event, TokenReceived) else event.message
        reason = _failure_in_response(message, authentication)
        if message is not None and reason:
            location = locate(message, "error_code" if message.body.get("error_code") else "auth_bytes")
    if reason is None or authentication.nonces_differ:
        return
    times = connection.run.state(_Failures).count(key, event.at)
    mechanism = authentication.mechanism or "SASL"
    login_kind = "re-authentication" if authentication.is_reauthentication else "login"
    failure_text = (
        f"{mechanism} {login_kind} of client {connection.client_id!r} from {key[1]} at {connection.server} failed"
    )
    if authentication.by_token:
        hint = _DELEGATED_HINT
    elif mechanism.startswith("SCRAM-"):
        hint = _SCRAM_HINT.format(mechanism)
    else:
        hint = _HINTS.get(mechanism, _CREDENTIALS_HINT)
    if isinstance(event, ConnectionEnded) and authentication.raw:
        hint += _RAW_HINT
    reason_text = reason + _token_problem(authentication.bearer, event.at)
    cause = f"{mechanism} {authentication.refusal.reason if authentication.refusal else ''}"
    if isinstance(event, ConnectionEnded) and event.unanswered:
        request = ConcernedRequest.of(event.unanswered[-1])
    else:
        request = None
    if times < _THRESHOLD:
        yield Problem(f"{failure_text}: {reason_text}", hint=hint, cause=cause, request=request, **location)
    else:
        text = f"{failure_text} {times} times, never successfully: {reason_text}"
        yield Problem(text, hint=hint, cause=f"again {cause}", request=request, **location)


def _failure_in_response(message: Message | None, authentication: Authentication) -> str | None:
    """Return why the server's answer means that the login failed; None if it does not."""
    refusal = authentication.refusal
    code = message.body.get("error_code", 0) if message is not None else Error.NONE
    if code == Error.SASL_AUTHENTICATION_FAILED or (code not in _NOT_LOGIN_FAILURES and authentication.tokens):
        assert message is not None
        text = secret_fields.redacted(message).get("error_message") or ""
        reason = f"{message.api} returned {schemas.error_name(code) or f'error {code}'}"
        reason += f": {text[:_MAX_TEXT]!r}" if text else ""
        return f"{reason} ({refusal.reason})" if refusal and refusal.reason and refusal.reason not in text else reason
    if authentication.phase is SaslPhase.FAILED and refusal:
        return _refusal_text(refusal)
    return None


def _failure_at_close(event: ConnectionEnded, authentication: Authentication) -> str | None:
    """Return why the end of the connection means that a login failed without an error; None if it does not."""
    if authentication.phase is not SaslPhase.TOKENS or event.by not in ("server", "client"):
        return None
    if authentication.refusal:
        return _refusal_text(authentication.refusal)
    if event.by == "client" or event.at - authentication.last_token_at > CAUSED_WITHIN:
        return None
    if authentication.raw:
        return "closed after the tokens, which have no Kafka header after SaslHandshake v0"
    if event.unanswered and event.unanswered[-1].message.api == "SaslAuthenticate":
        return "the server closed the connection instead of answering SaslAuthenticate"
    return None


def _refusal_text(refusal: ServerRefusal) -> str:
    return f"the server answers {refusal.reason or 'an error'}"


def _token_problem(bearer: OAuthBearerClientFirst | None, at: int) -> str:
    """Return what is wrong with a bearer token, as far as it can be read."""
    if bearer is None or bearer.problem:  # X020 reports that
        return ""
    now_s = at / SECOND
    if bearer.expires_at is not None and now_s > bearer.expires_at:
        return f"; the token expired {now_s - bearer.expires_at:.0f} s before"
    if bearer.not_before is not None and now_s < bearer.not_before:
        return f"; the token is not valid yet, but in {bearer.not_before - now_s:.0f} s"
    return "; the token is not a JWT" if bearer.is_opaque else ""
