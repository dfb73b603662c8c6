"""Builds request frames for any version of any API, with Kafka's defaults for fields that are not given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dissectors import schemas
from dissectors.edits import EditError, frame_layout, write
from dissectors.edits.notation import EditMaker
from dissectors.schemas.codes import ApiKey
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import Layout, layout
from kproxy.errors import UserError
from kproxy.filters.errors import nearest
from kproxy.version import __version__

#: The header's ``client_id``, unless the user gives another.
CLIENT_ID: Final = "kproxy"
#: The first version of the request header with which only the first request of a connection has the client id.
_FIRST_HEADER_WITHOUT_CLIENT_ID: Final = 3
#: ``API`` or ``API:VERSION`` in a command line.
API_WORD: Final = re.compile(r"(\w+)(?::(\d{1,4}))?")


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request to send: its API and version, the values of its body, and the edit to apply when it is written.

    Kafka rejects an ApiVersions request without a client name, so kproxy's name is the default there (KIP-511).
    """

    api: schemas.Api
    version: int
    values: Mapping[str, Any]
    edit: EditMaker | None = None

    def frame(
        self, correlation_id: int, client_id: str | None = CLIENT_ID, client_instance_id: str | None = None
    ) -> bytes:
        """Return the frame with its length prefix. Headers before version 3 leave the client instance id out.

        Raises:
            UserError: A value does not fit its type, or the edit does not fit the request.
        """
        header = layout("RequestHeader", schemas.header_versions(self.api.key, self.version)[0])
        body = body_layout(self.api, self.version)
        header_values = {
            "request_api_key": self.api.key,
            "request_api_version": self.version,
            "correlation_id": correlation_id,
            "client_id": client_id,
        }
        if client_instance_id is not None and any(field.name == "client_instance_id" for field in header.tagged):
            header_values["client_instance_id"] = client_instance_id
        values = {"header": header_values, "body": self._default_values(body) | dict(self.values)}
        try:
            return write(self.edit(body) if self.edit else None, frame_layout(header, body), values)
        except EditError as error:
            raise UserError(f"--edit: {error}") from None
        except EncodeError as error:
            raise UserError(f"{self.api.name} v{self.version}: {error}") from None

    @property
    def omits_client_id(self) -> bool:
        """Whether the request has no client id unless it is the first request of its connection (KIP-1313)."""
        return schemas.header_versions(self.api.key, self.version)[0] >= _FIRST_HEADER_WITHOUT_CLIENT_ID

    def _default_values(self, body: Layout) -> dict[str, Any]:
        if self.api.key != ApiKey.API_VERSIONS or not body.fields:
            return {}
        return {"client_software_name": "kproxy", "client_software_version": __version__}


def api_of(text: str) -> schemas.Api:
    """Return the API with this name (in any case) or key.

    Raises:
        UserError: There is none; the message suggests a similar name.
    """
    names = {api.name.lower(): api for api in schemas.apis()}
    known_api = schemas.api(int(text)) if text.isdecimal() else names.get(text.lower())
    if known_api is None:
        suggestion = nearest(text, [api.name for api in schemas.apis()])
        raise UserError(
            f"unknown API {text!r}" + (f"; did you mean {suggestion}?" if suggestion else "; kproxy schemas lists them")
        )
    return known_api


def body_layout(api: schemas.Api, version: int) -> Layout:
    """Return the layout of a request's body.

    Raises:
        UserError: No Kafka release has this version.
    """
    name = schemas.request(api.key)
    if name is None or version not in api.versions:
        raise UserError(
            f"{api.name} has no version {version}: use {api.min_version} to {api.max_version}, or --raw HEX"
        )
    return layout(name, version)
