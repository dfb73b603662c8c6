"""SASL SCRAM (RFC 5802, RFC 7677), with Kafka's extension ``tokenauth`` for delegation tokens (KIP-48)."""

from __future__ import annotations

import re

from dissectors.sasl.messages import (
    SaslMessage,
    ScramClientFinal,
    ScramClientFirst,
    ScramServerFirst,
    ServerRefusal,
    showable_name,
)

#: RFC 5802, section 7: ``server-error-value``. Any other text may contain a secret.
_SERVER_ERRORS = frozenset({
    "invalid-encoding", "extensions-not-supported", "invalid-proof", "channel-bindings-dont-match",
    "server-does-support-channel-binding", "channel-binding-not-supported", "unsupported-channel-binding-type",
    "unknown-user", "invalid-username-encoding", "no-resources", "other-error",
})  # fmt: skip
#: The GS2 flags that can be shown, with the channel bindings of RFC 5929 and RFC 9266.
_FLAGS = frozenset({"n", "y", "p=tls-unique", "p=tls-server-end-point", "p=tls-exporter"})
_ITERATIONS = re.compile(r"[1-9][0-9]{0,9}")
_EXTENSION = re.compile(r"[A-Za-z]{1,64}")
_MAX_EXTENSIONS = 16
#: RFC 5802, section 5.1: a server must refuse such a user name.
_BARE_EQUALS = re.compile(r"=(?!2C|3D)")
UNESCAPED = "has a user name with '=' that is not written as =3D"


def read_client_first(data: bytes) -> SaslMessage:
    """Read ``client-first-message``: the user name and the nonce."""
    parts = data.decode(errors="replace").split(",", 2)
    if len(parts) < 3 or (parts[0] not in ("n", "y") and not parts[0].startswith("p=")):
        return ScramClientFirst(problem='does not begin with a GS2 header ("n,,")')
    flag, authorization, message = parts
    attributes = _attributes(message)
    username, nonce = attributes.get("n"), attributes.get("r")
    missing = "user name (n=)" if not username else "nonce (r=)" if not nonce else None
    problem = f"has no {missing}" if missing else None
    if problem is None and _BARE_EQUALS.search(username or ""):
        problem = UNESCAPED
    extensions = tuple(name for name in attributes if name not in ("n", "r") and _EXTENSION.fullmatch(name))
    return ScramClientFirst(
        username=showable_name(_unescape(username)) if username else None,
        authorization_id=_unescape(authorization.removeprefix("a=")),
        nonce=nonce,
        channel_binding=flag if flag in _FLAGS else "p=",
        extensions=extensions[:_MAX_EXTENSIONS],
        by_token=attributes.get("tokenauth", "").lower() == "true",
        problem=problem,
    )


def read_server_first(data: bytes) -> SaslMessage:
    """Read ``server-first-message``: both nonces and the iteration count, or an error."""
    attributes = _attributes(data.decode(errors="replace"))
    if "e" in attributes:
        return _server_refusal(attributes["e"])
    iteration_count = attributes.get("i", "")
    missing = next((description for key, description in _SERVER_FIRST.items() if not attributes.get(key)), None)
    count_match = _ITERATIONS.fullmatch(iteration_count)
    problem = f"has no {missing}" if missing else None if count_match else "has an iteration count that is not a number"
    return ScramServerFirst(
        nonce=attributes.get("r"), iterations=int(iteration_count) if count_match else None, problem=problem
    )  # fmt: skip


_SERVER_FIRST = {"r": "nonce (r=)", "s": "salt (s=)", "i": "iteration count (i=)"}


def read_client_final(data: bytes) -> SaslMessage:
    """Read ``client-final-message``: the nonce again; the proof is dropped."""
    attributes = _attributes(data.decode(errors="replace"))
    names = {"c": "channel binding (c=)", "r": "nonce (r=)", "p": "proof (p=)"}
    missing = next((description for key, description in names.items() if not attributes.get(key)), None)
    return ScramClientFinal(nonce=attributes.get("r"), problem=f"has no {missing}" if missing else None)


def read_server_final(data: bytes) -> SaslMessage:
    """Read ``server-final-message``: an error, or a signature, which is dropped."""
    attributes = _attributes(data.decode(errors="replace"))
    if "e" in attributes:
        return _server_refusal(attributes["e"])
    return SaslMessage(problem=None if attributes.get("v") else "has neither a signature (v=) nor an error (e=)")


def _server_refusal(error: str) -> ServerRefusal:
    return ServerRefusal(reason=error if error in _SERVER_ERRORS else None)


def _attributes(text: str) -> dict[str, str]:
    """Return the attributes of ``n=user,r=nonce`` by letter. If a letter is repeated, the first value counts."""
    attributes: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            attributes.setdefault(name, value)
    return attributes


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
