"""Requests as the user writes them, in a command line or as JSON Lines. They are encoded once versions are known."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dissectors import schemas
from dissectors.edits import EditError
from dissectors.edits.notation import EditMaker, edit_of
from dissectors.wire.primitives import uuid_text
from kproxy.client.assignments import assign, from_json
from kproxy.client.request import API_WORD, CLIENT_ID, ClientRequest, api_of, body_layout
from kproxy.client.versions import VersionRanges, newest_version
from kproxy.errors import UserError


@dataclass(slots=True)
class PlannedRequest:
    """A request that has no version yet, unless the user gave one. Its fields depend on the version."""

    api: schemas.Api
    version: int | None
    assignments: list[str] = field(default_factory=list)
    body: Any = None
    edit: EditMaker | None = None

    def at(self, version: int) -> ClientRequest:
        """Return the request in this version.

        Raises:
            UserError: The version lacks a field, or a value does not fit its type.
        """
        layout = body_layout(self.api, version)
        values = {} if self.body is None else from_json(layout, self.body)
        for assignment in self.assignments:
            assign(layout, values, assignment)
        return ClientRequest(self.api, version, values, self.edit)


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    api: str | int
    version: int | None = None
    body: dict[str, Any] | None = None
    edit: Any = None


def from_words(words: Sequence[str], version: int | None, edit: str | None = None) -> list[PlannedRequest]:
    """Parse requests: ``API[:VERSION]``, each followed by ``FIELD=VALUE`` words and JSON bodies.

    Args:
        words: The words of the command line.
        version: The version of requests without their own.
        edit: The edit of the request, which must then be the only one.

    Raises:
        UserError: A word has none of these forms, or there is no request.
    """
    requests: list[PlannedRequest] = []
    for word in words:
        if (match := API_WORD.fullmatch(word)) is not None:
            requests.append(PlannedRequest(api_of(match[1]), int(match[2]) if match[2] else version))
        elif not requests:
            raise UserError(f"{word!r} is before the first request: begin with an API, e.g. Metadata topics=orders")
        elif word.startswith("{"):
            requests[-1].body = _parse_json(word)
        else:
            requests[-1].assignments.append(word)
    if not requests:
        raise UserError("pass a request, e.g. Metadata topics=orders; kproxy schemas lists the APIs")
    if edit is not None:
        if len(requests) > 1:
            raise UserError("--edit applies to one request: send the others separately")
        requests[0].edit = _parse_edit(edit)
    return requests


def from_lines(text: str, version: int | None) -> list[PlannedRequest]:
    """Parse JSON Lines: ``{"api": "Metadata", "version": 9, "body": {"topics": []}, "edit": "moved:topics:last"}``.

    Raises:
        UserError: A line has another form.
    """
    requests = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError as error:
            raise UserError(f'line {number}: expected {{"api", "version"?, "body"?, "edit"?}}: {error}') from None
        edit = (
            entry.edit
            if entry.edit is None or isinstance(entry.edit, str)
            else msgspec.json.encode(entry.edit).decode()
        )
        request_version = version if entry.version is None else entry.version
        requests.append(
            PlannedRequest(api_of(str(entry.api)), request_version, [], entry.body, _parse_edit(edit) if edit else None)
        )
    if not requests:
        raise UserError('standard input has no requests: pass lines such as {"api": "Metadata"}')
    return requests


def needs_versions(requests: Sequence[PlannedRequest]) -> bool:
    """Whether the broker must be asked for its versions first: a request has no version yet."""
    return any(request.version is None for request in requests)


def encode_requests(
    requests: Sequence[PlannedRequest],
    client_id: str | None = CLIENT_ID,
    served: VersionRanges | None = None,
    next_correlation_id: Callable[[], int] | None = None,
) -> list[bytes]:
    """Return the frames. If the broker's versions are not given, use the newest ones that kproxy knows.

    The first frame has the client id, and an instance id if its header version has that field; later frames with
    that header version omit both (KIP-1313).

    Raises:
        UserError: See `PlannedRequest.at` and `kproxy.client.versions.newest_version`.
    """
    next_id = next_correlation_id or itertools.count(1).__next__
    frames: list[bytes] = []
    for planned_request in requests:
        version = planned_request.version
        if version is None:
            version = newest_version(planned_request.api, served) if served else planned_request.api.max_version
        request = planned_request.at(version)
        if not frames:
            frames.append(request.frame(next_id(), client_id, uuid_text(uuid.uuid4().bytes)))
        else:
            frames.append(request.frame(next_id(), None if request.omits_client_id else client_id))
    return frames


def _parse_edit(text: str) -> EditMaker:
    try:
        return edit_of(text)
    except EditError as error:
        raise UserError(f"--edit: {error}") from None


def _parse_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UserError(f"{text[:40]!r} is not JSON: {error}") from None
