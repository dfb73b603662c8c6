"""Responses that a replay builds itself, because versions and logins differ between a capture and its clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dissectors import schemas
from dissectors.edits import frame_layout, write
from dissectors.messages.message import Message, api_layouts
from dissectors.schemas.codes import ApiKey, Error

#: API key -> lowest and highest version.
Versions = Mapping[int, tuple[int, int]]
#: Other mechanisms need the password: clients verify that the broker knows it.
_ACCEPTED_MECHANISMS: Final = ("PLAIN", "OAUTHBEARER")


def api_versions(captured: Message, version: int, correlation_id: int, versions: Versions) -> bytes:
    """Return an ApiVersions response that lists only the versions in a capture, so that clients choose one of them.

    The SASL APIs are also listed, because the server supports authentication.

    Args:
        captured: A captured response of any version that decodes.
        version: The version of the request. If it is unknown, the response is an error in version 0 (KIP-511).
        correlation_id: The correlation id of the request.
        versions: The versions in the capture.
    """
    api = schemas.api(ApiKey.API_VERSIONS)
    assert api is not None
    served = {key["api_key"]: (key["min_version"], key["max_version"]) for key in captured.body["api_keys"]}
    for key, (lowest, highest) in versions.items():
        if key in served and served[key][0] <= lowest and highest <= served[key][1]:  # a wrong range stays wrong
            served[key] = lowest, highest
    served[api.key] = api.min_version, api.max_version
    listed = {*versions, api.key, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} & served.keys()
    keys = [{"api_key": key, "min_version": served[key][0], "max_version": served[key][1]} for key in sorted(listed)]
    if version not in api.versions:
        return _build_response(api.key, 0, correlation_id, {"error_code": Error.UNSUPPORTED_VERSION, "api_keys": keys})
    return _build_response(api.key, version, correlation_id, {**captured.body, "api_keys": keys})


class AcceptedLogin:
    """The login of a client on one connection, which is accepted whatever its secret is."""

    def __init__(self) -> None:
        self._expects_token = False

    def answer(self, request: Message) -> bytes | None:
        """Return the response to a login request, None for any other request."""
        if self._expects_token:  # SaslHandshake v0: a token has no header, and neither has its answer
            self._expects_token = False
            return bytes(4)
        if not request.well_formed:
            return None
        if request.api_key == ApiKey.SASL_AUTHENTICATE:
            body: dict[str, Any] = {"error_message": None, "auth_bytes": b""}
        elif request.api_key == ApiKey.SASL_HANDSHAKE:
            is_accepted = request.body["mechanism"] in _ACCEPTED_MECHANISMS
            self._expects_token = is_accepted and request.version == 0
            body = {
                "mechanisms": _ACCEPTED_MECHANISMS,
                "error_code": 0 if is_accepted else Error.UNSUPPORTED_SASL_MECHANISM,
            }
        else:
            return None
        return _build_response(request.api_key, request.version, request.correlation_id, body)


def _build_response(api_key: int, version: int, correlation_id: int | None, body: Mapping[str, Any]) -> bytes:
    layouts = api_layouts(api_key, version)
    assert layouts is not None
    field_names = {field.name for field in (*layouts.response.fields, *layouts.response.tagged)}
    values = {
        "header": {"correlation_id": correlation_id},
        "body": {name: value for name, value in body.items() if name in field_names},
    }
    return write(None, frame_layout(layouts.response_header, layouts.response), values)
