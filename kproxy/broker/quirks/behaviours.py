"""Quirks of behaviour: wrong values and errors; delayed, repeated, missing or truncated responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dissectors import schemas
from dissectors.wire.layout import Layout, layout
from kproxy.broker.errors import Error
from kproxy.broker.quirks.quirk import Quirk, ServedResponse
from kproxy.broker.quirks.rebuilt_records import LOSSES, rebuild_records
from kproxy.filters.errors import suggestion

#: The names of error code fields; the second is in the partitions of AddPartitionsToTxn.
_ERROR_FIELDS: Final = ("error_code", "partition_error_code")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A kind of behaviour: its parameters, its description, and the function that configures a quirk for it.

    `configure` takes the quirk and the parameters, and raises ValueError with a sentence if they are invalid.
    """

    parameters: tuple[str, ...]
    description: str
    configure: Callable[..., None]


def _configure_error(quirk: Quirk, name: str) -> None:
    try:
        code = int(Error[name.upper()])
    except KeyError:
        hint = suggestion(name, [error.name for error in Error]) or "use Kafka's name, e.g. NOT_LEADER_OR_FOLLOWER"
        raise ValueError(f"unknown error {name!r}; {hint}") from None

    def change_response(response: ServedResponse) -> None:
        if response.api == "Produce":  # a rejected batch must not be stored
            response.body = _produce_response(response.request)
        response_layout = layout(f"{response.api}Response", response.version)
        response.body = _with_errors(response_layout, response.body, code)

    quirk.before, quirk.skips = change_response, quirk.api == "Produce"


def _produce_response(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "responses": [
            {
                "name": topic.get("name", ""),
                "topic_id": topic.get("topic_id"),
                "partition_responses": [
                    {"index": partition["index"], "error_code": 0, "base_offset": -1}
                    for partition in topic["partition_data"]
                ],
            }
            for topic in request["topic_data"]
        ]
    }


def _with_errors(struct: Layout, body: Mapping[str, Any], code: int) -> Mapping[str, Any]:
    """Return the body with the code in its innermost error fields, or at the top level if it has none."""
    new_body, has_errors = _set_innermost_errors(struct, body, code)
    return new_body if has_errors else {**body, "error_code": code}


def _set_innermost_errors(struct: Layout, body: Mapping[str, Any], code: int) -> tuple[dict[str, Any], bool]:
    """Return the body with the code in its innermost error fields, and whether it has any; others may be omitted."""
    new_body, has_inner_errors = dict(body), False
    for field in struct.fields:
        rows = body.get(field.name) if field.array and field.struct is not None else None
        if rows and field.struct is not None:
            results = [_set_innermost_errors(field.struct, row, code) for row in rows]
            if any(has_error for _, has_error in results):
                new_body[field.name], has_inner_errors = [element for element, _ in results], True
    if has_inner_errors:
        return new_body, True
    names = [field.name for field in struct.fields if field.name in _ERROR_FIELDS]
    return {**new_body, **dict.fromkeys(names, code)}, bool(names)


def _configure_value(quirk: Quirk, path: str, text: str) -> None:
    path_elements = path.split(".")
    if not all(path_elements):
        raise ValueError(f"{path!r} is not a field path such as brokers[].host")

    def change_response(response: ServedResponse) -> None:
        response.body = _set_field(response.body, path_elements, text)

    quirk.before = change_response


def _set_field(body: Mapping[str, Any], path_elements: Sequence[str], text: str) -> Mapping[str, Any]:
    name = path_elements[0].removesuffix("[]")
    if name not in body:
        return body
    value = body[name]
    if len(path_elements) == 1:
        return {**body, name: _convert_like(value, text)}
    if isinstance(value, Mapping):
        return {**body, name: _set_field(value, path_elements[1:], text)}
    return {**body, name: [_set_field(element, path_elements[1:], text) for element in value or ()]}


def _convert_like(value: Any, text: str) -> Any:
    """Convert the text to the type of the value, if that is known."""
    if text == "null":
        return None
    if text == "[]" and isinstance(value, list | tuple):
        return []
    if isinstance(value, bool):
        return text == "true"
    if isinstance(value, int | float):
        return type(value)(int(text, 0) if isinstance(value, int) else float(text)) if _is_integer(text) else value
    return text


def _is_integer(text: str) -> bool:
    try:
        int(text, 0)
    except ValueError:
        return False
    return True


def _configure_loss(quirk: Quirk, loss: str) -> None:
    if loss not in LOSSES:
        raise ValueError(f"{loss!r} cannot be lost; use {' or '.join(LOSSES)}")

    def change_response(response: ServedResponse) -> None:
        response.body = _rebuild_row(response.body, loss)

    quirk.before = change_response


def _rebuild_row(row: Mapping[str, Any], loss: str) -> Mapping[str, Any]:
    """Return the row with its record data, and that in nested rows, rebuilt."""
    new_row = dict(row)
    for name in ("responses", "partitions"):
        if name in row:
            new_row[name] = [_rebuild_row(element, loss) for element in row[name]]
    if data := row.get("records"):
        new_row["records"] = [rebuild_records(b"".join(data), loss)]
    return new_row


def _configure_versions(quirk: Quirk, lowest: str, highest: str) -> None:
    if not (lowest.isdecimal() and highest.isdecimal()):
        raise ValueError("versions takes the lowest and the highest version, as numbers")
    api = schemas.api_by_name(quirk.api)
    if api is None:
        raise ValueError("versions needs the name of an API")
    key, api_name = api.key, quirk.api

    def change_response(response: ServedResponse) -> None:
        limits = {"min_version": int(lowest), "max_version": int(highest)}
        keys = [
            {**api_key, **limits} if api_key["api_key"] == key else api_key for api_key in response.body["api_keys"]
        ]
        response.body = {**response.body, "api_keys": keys}

    quirk.api, quirk.before = "ApiVersions", change_response
    quirk.description = f"ApiVersions advertises {api_name} from version {lowest} to {highest}"


def _configure_delay(quirk: Quirk, delay_ms: str) -> None:
    if not delay_ms.isdecimal():
        raise ValueError(f"a delay must be a number of milliseconds, not {delay_ms!r}")

    def change_response(response: ServedResponse) -> None:
        response.delay_ms += int(delay_ms)

    quirk.before = change_response


def _configure_drop(quirk: Quirk) -> None:
    quirk.after = lambda response: response.frames.clear()


def _configure_duplicate(quirk: Quirk) -> None:
    quirk.after = lambda response: response.frames.extend(response.frames[:1])


def _configure_correlation_id(quirk: Quirk, delta: str) -> None:
    if not delta.lstrip("+-").isdecimal():
        raise ValueError(f"the correlation id's offset must be a number, not {delta!r}")

    def change_response(response: ServedResponse) -> None:
        response.correlation_id = (response.correlation_id + int(delta) + 2**31) % 2**32 - 2**31

    quirk.before = change_response


def _configure_close(quirk: Quirk) -> None:
    def change_frames(response: ServedResponse) -> None:
        response.frames.clear()
        response.close = True

    quirk.after = change_frames


def _configure_cut(quirk: Quirk, size: str) -> None:
    if not size.isdecimal():
        raise ValueError(f"the number of bytes must be a number, not {size!r}")

    def change_frames(response: ServedResponse) -> None:
        response.frames = [frame[: int(size)] for frame in response.frames[:1]]
        response.close = True

    quirk.after = change_frames


BEHAVIOURS: Final[dict[str, Behaviour]] = {
    "error": Behaviour(("ERROR",), "responds with {0}", _configure_error),
    "value": Behaviour(("FIELD", "VALUE"), "sets {0} to {1}", _configure_value),
    "loses": Behaviour(("LOSS",), "returns records without {0}", _configure_loss),
    "versions": Behaviour(("LOWEST", "HIGHEST"), "", _configure_versions),
    "delay": Behaviour(("MS",), "delays the response by {0} ms", _configure_delay),
    "drop": Behaviour((), "never responds", _configure_drop),
    "duplicate": Behaviour((), "responds twice", _configure_duplicate),
    "correlation_id": Behaviour(
        ("DELTA",), "responds with a correlation id that is off by {0}", _configure_correlation_id
    ),
    "close": Behaviour((), "closes the connection instead of responding", _configure_close),
    "cut": Behaviour(("BYTES",), "closes the connection after {0} bytes of the response", _configure_cut),
}
