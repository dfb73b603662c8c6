"""Kafka's protocol without I/O: bytes and times in, events and findings out.

The names in `__all__` are the public core; docs/core.md shows its use. They keep their names, arguments and meaning in
all releases of one major version, and change only with an entry in the changelog; arguments and fields may be
added. Modules below this one may change at any time.

Conventions of the whole core:

* A frame is `bytes` with its length prefix; offsets and spans count from that prefix and are half-open.
* The values of a body are a dict by Kafka's names in snake_case: numbers, str, bytes, lists of dicts, None for null.
* Times `at` are in nanoseconds since the epoch, and come from the caller. Times in bodies are as Kafka sends them (ms).
* Bytes from peers never raise. Wrong arguments raise `ValueError` (`KeyError` for `layout`) with one sentence as text.

Each name is imported when it is first used, so importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dissectors import rules as rules
    from dissectors import schemas as schemas
    from dissectors.connections.connection import Connection as Connection
    from dissectors.connections.events import BytesSkipped as BytesSkipped
    from dissectors.connections.events import ConnectionEnded as ConnectionEnded
    from dissectors.connections.events import ConnectionOpened as ConnectionOpened
    from dissectors.connections.events import Direction as Direction
    from dissectors.connections.events import Event as Event
    from dissectors.connections.events import FrameIncomplete as FrameIncomplete
    from dissectors.connections.events import FramingLost as FramingLost
    from dissectors.connections.events import ProxyHeaderReceived as ProxyHeaderReceived
    from dissectors.connections.events import RequestReceived as RequestReceived
    from dissectors.connections.events import ResponseReceived as ResponseReceived
    from dissectors.connections.events import TokenReceived as TokenReceived
    from dissectors.conversation import Conversation as Conversation
    from dissectors.conversation import Judged as Judged
    from dissectors.conversation import check_exchange as check_exchange
    from dissectors.conversation import new_run as new_run
    from dissectors.diagnosis.diagnose import diagnose as diagnose
    from dissectors.edits.encode_frame import encode_request as encode_request
    from dissectors.edits.encode_frame import encode_response as encode_response
    from dissectors.edits.notation import edit_of as edit_of
    from dissectors.findings import Finding as Finding
    from dissectors.findings import Problem as Problem
    from dissectors.findings import Severity as Severity
    from dissectors.hexdump import unhex as unhex
    from dissectors.messages.diagnosis_result import Diagnosis as Diagnosis
    from dissectors.messages.message import Message as Message
    from dissectors.messages.message import Tree as Tree
    from dissectors.messages.message import read_request as read_request
    from dissectors.messages.message import read_response as read_response
    from dissectors.messages.message import walk_message as walk_message
    from dissectors.rules import Rule as Rule
    from dissectors.trackers.state import ConnectionState as ConnectionState
    from dissectors.trackers.state import RunState as RunState
    from dissectors.wire.decode import decode as decode
    from dissectors.wire.edit import Edit as Edit
    from dissectors.wire.edit import EditError as EditError
    from dissectors.wire.encode import encode as encode
    from dissectors.wire.errors import DecodeError as DecodeError
    from dissectors.wire.errors import EncodeError as EncodeError
    from dissectors.wire.layout import Field as Field
    from dissectors.wire.layout import Layout as Layout
    from dissectors.wire.layout import layout as layout
    from dissectors.wire.node import Node as Node

#: The module of each public name.
_MODULES = {
    "connections.connection": ("Connection",),
    "connections.events": (
        "BytesSkipped",
        "ConnectionEnded",
        "ConnectionOpened",
        "Direction",
        "Event",
        "FrameIncomplete",
        "FramingLost",
        "ProxyHeaderReceived",
        "RequestReceived",
        "ResponseReceived",
        "TokenReceived",
    ),
    "conversation": ("Conversation", "Judged", "check_exchange", "new_run"),
    "diagnosis.diagnose": ("diagnose",),
    "edits.encode_frame": ("encode_request", "encode_response"),
    "edits.notation": ("edit_of",),
    "findings": ("Finding", "Problem", "Severity"),
    "hexdump": ("unhex",),
    "messages.diagnosis_result": ("Diagnosis",),
    "messages.message": ("Message", "Tree", "read_request", "read_response", "walk_message"),
    "rules": ("Rule", "rules"),
    "schemas": ("schemas",),
    "trackers.state": ("ConnectionState", "RunState"),
    "wire.decode": ("decode",),
    "wire.edit": ("Edit", "EditError"),
    "wire.encode": ("encode",),
    "wire.errors": ("DecodeError", "EncodeError"),
    "wire.layout": ("Field", "Layout", "layout"),
    "wire.node": ("Node",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [*sorted(_HOMES)]


if not TYPE_CHECKING:  # pragma: no branch  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if (home := _HOMES.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(f"{__name__}.{home}")
        value = module if name == home else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
