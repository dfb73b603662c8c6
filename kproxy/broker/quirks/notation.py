"""Quirks as text: ``API[:VERSIONS]:KIND[:WORDS][,CONDITION=VALUE]``.

``JoinGroup:2:moved:throttle_time_ms:last``, ``Fetch:delay:500,client=consumer-1``,
``Produce:3-8:error:NOT_LEADER_OR_FOLLOWER,topic=orders,probability=0.1``. The kind can also be an edit as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dissectors import schemas
from dissectors.edits import Edit, EditError, frame_layout
from dissectors.edits.notation import KIND_NAMES, EditMaker, edit_of, kind_of
from dissectors.wire.layout import layout
from kproxy.broker.quirks.behaviours import BEHAVIOURS
from kproxy.broker.quirks.quirk import Quirk, ServedResponse
from kproxy.broker.quirks.sets import SETS
from kproxy.filters.errors import suggestion

_VERSIONS: Final = re.compile(r"(\d+)(?:(-)(\d+)|(\+))?")
_CONDITIONS: Final = re.compile(r"(.*?)((?:,(?:client|topic|probability|times)=[^,]*)*)", re.DOTALL)
_NEWEST: Final = 1000


class QuirkError(ValueError):
    """Raised if a text is not a quirk; the message shows the valid forms."""


def parse(text: str) -> list[Quirk]:
    """Parse the quirks in a text: the quirks of a named set, or a single quirk.

    Raises:
        QuirkError: The text is invalid.
    """
    if text in SETS:
        return [_parse_one(quirk_text) for quirk_text in SETS[text].quirks]
    if ":" not in text:
        raise QuirkError(f"unknown quirk {text!r}; {suggestion(text, SETS) or 'kproxy quirks lists them'}")
    return [_parse_one(text)]


def _parse_one(text: str) -> Quirk:
    condition_match = _CONDITIONS.fullmatch(text)
    assert condition_match is not None
    api, _, rest = condition_match[1].partition(":")
    if api != "*" and schemas.api_by_name(api) is None:
        hint = suggestion(api, [api.name for api in schemas.apis()]) or "kproxy broker-features lists them"
        raise QuirkError(f"quirk {text!r}: unknown API {api!r}; {hint}")
    versions: range | None = None
    if match := _VERSIONS.fullmatch(rest.partition(":")[0]):
        low = int(match[1])
        high = _NEWEST if match[4] else int(match[3] or low)
        versions, rest = range(low, high + 1), rest.partition(":")[2]
    quirk = Quirk(text, "", api, versions)
    try:
        _configure(quirk, rest)
        _set_conditions(quirk, condition_match[2])
    except ValueError as error:
        raise QuirkError(f"quirk {text!r}: {error}") from None
    return quirk


def _configure(quirk: Quirk, action: str) -> None:
    name, *parameters = action.split(":")
    if behaviour := BEHAVIOURS.get(name):
        if len(parameters) != len(behaviour.parameters):
            raise ValueError(
                f"{name} takes {':'.join(behaviour.parameters) or 'nothing'}, not {':'.join(parameters) or 'nothing'}"
            )
        quirk.description = f"{quirk.api} {behaviour.description.format(*parameters)}"
        behaviour.configure(quirk, *parameters)
    elif action.startswith("{") or kind_of(name):
        _configure_edit(quirk, edit_of(action))
    else:
        kinds = (*BEHAVIOURS, *KIND_NAMES)
        raise ValueError(f"unknown kind {name!r}; {suggestion(name, kinds) or 'use one of ' + ', '.join(kinds)}")


def _configure_edit(quirk: Quirk, make_edit: EditMaker) -> None:
    edits = _edits_by_version(quirk, make_edit)
    if not edits:
        raise EditError("it fits no version of the response")

    def add_edit(response: ServedResponse) -> None:
        edit = edits.get((response.api, response.version))
        if edit is not None:
            response.edit = response.edit.followed_by(edit) if response.edit else edit

    quirk.before = add_edit
    quirk.description = f"in {quirk.api} responses: {next(iter(edits.values()))}"


def _edits_by_version(quirk: Quirk, make_edit: EditMaker) -> dict[tuple[str, int], Edit]:
    """Return the edit for each version that it fits; if it fits none, raise the last error."""
    edits: dict[tuple[str, int], Edit] = {}
    last_error: EditError | None = None
    for api in schemas.apis() if quirk.api == "*" else _find_api(quirk.api):
        for version in api.versions:
            if quirk.versions is not None and version not in quirk.versions:
                continue
            body = layout(f"{api.name}Response", version)
            try:
                edit = make_edit(body)
                edit.apply(frame_layout(layout("ResponseHeader", schemas.header_versions(api.key, version)[1]), body))
            except EditError as error:
                last_error = error
                continue
            edits[api.name, version] = edit
    if not edits and last_error is not None:
        raise last_error
    return edits


def _find_api(api: str) -> Sequence[schemas.Api]:
    known_api = schemas.api_by_name(api)
    assert known_api is not None
    return (known_api,)


def _set_conditions(quirk: Quirk, text: str) -> None:
    for option in text.split(",")[1:]:
        name, _, value = option.partition("=")
        if name == "client":
            quirk.client = value
        elif name == "topic":
            quirk.topic = value
        elif name == "times":
            if not value.isdecimal() or not int(value):
                raise ValueError(f"times={value} is not a positive number")
            quirk.times = int(value)
        else:
            try:
                quirk.probability = float(value)
            except ValueError:
                quirk.probability = -1
            if not 0 < quirk.probability <= 1:
                raise ValueError(f"probability={value} must be above 0 and at most 1")
