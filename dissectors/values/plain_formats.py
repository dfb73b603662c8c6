"""The registry of formats that need no schema. They are tried in the order of their ranks."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from typing import Final, TypeAlias

from dissectors.values.value import DecodedValue, ValueContext

#: (bytes, context) -> value; None if the bytes, which are not empty, are not of this format. Any exception means the
#: same as None.
PlainFormat: TypeAlias = Callable[[bytes, ValueContext], DecodedValue | None]

_FORMATS: dict[PlainFormat, int] = {}
#: CBOR needs a package that may not be installed.
_MODULES: Final = ("cloud_events", "json_text", "text", "message_pack", "cbor")


def plain_format(rank: int) -> Callable[[PlainFormat], PlainFormat]:
    """Register a format. A format that is stricter about the bytes has a lower rank."""

    def register(format_: PlainFormat) -> PlainFormat:
        _FORMATS[format_] = rank
        return format_

    return register


def decode_plain(data: bytes, context: ValueContext) -> DecodedValue:
    """Decode bytes in the first format that fits, or as ``bytes`` if none does. Never raises."""
    if not data:
        return DecodedValue("empty", b"")
    for format_ in _formats():
        try:
            decoded = format_(data, context)
        except Exception:  # noqa: BLE001, S112  # an exception on hostile bytes means that the format does not fit
            continue
        if decoded is not None:
            return decoded
    return DecodedValue("bytes", data, is_guess=True)


@functools.cache
def _formats() -> tuple[PlainFormat, ...]:
    for module in _MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(f"dissectors.values.{module}")
    return tuple(sorted(_FORMATS, key=_FORMATS.__getitem__))
