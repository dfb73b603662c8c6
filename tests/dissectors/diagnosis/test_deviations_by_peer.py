"""A diagnosis returns a new message and does not change its input."""

from __future__ import annotations

import copy

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis import KnownDeviations, examine
from dissectors.hexdump import unhex
from dissectors.messages.message import read_request, read_response
from dissectors.trackers.state import ConnectionState

#: A Heartbeat v4 response with one tag buffer too many in its body.
DEVIATING_RESPONSE = unhex("0000000d 00000007 00 00000000 001b 00 00")
REQUEST = unhex("00000017 000c0004 00000007 00026d65 00 0267 00000003 026d 00 00")


def test_diagnosis_returns_a_new_message_and_leaves_its_input_unchanged() -> None:
    message = read_response(DEVIATING_RESPONSE, 12, 4)
    original = copy.copy(message)
    diagnosed = examine(message, None, KnownDeviations(), "")
    assert diagnosed is not message
    assert diagnosed.diagnosis is not None
    assert message == original
    assert (message.diagnosis, message.end) == (None, len(DEVIATING_RESPONSE) - 1)
    assert diagnosed.end == len(DEVIATING_RESPONSE)


def test_well_formed_message_is_returned_as_is() -> None:
    message = read_request(REQUEST)
    assert examine(message, None, KnownDeviations(), "") is message


def test_event_holds_the_message_with_its_diagnosis() -> None:
    connection, request = ConnectionState(), RequestReceived(0, 0, 0, read_request(REQUEST))
    message = read_response(DEVIATING_RESPONSE, 12, 4)
    event = ResponseReceived(0, 0, 0, 7, message, request)
    connection.observe(event)
    assert event.message is not message
    assert event.message is not None
    assert event.message.diagnosis is not None
