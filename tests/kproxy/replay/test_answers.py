"""Requests are answered with captured responses: which response is chosen, and which of its fields change."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from dissectors.messages.message import read_request, read_response
from kproxy.replay.answers import CapturedAnswer, CapturedAnswers, UnknownRequestError
from kproxy.replay.responses import AcceptedLogin
from kproxy.replay.server import ReplayServer
from tests.kproxy.frames import request
from tests.kproxy.replay.capture_stories import steps

ADDRESS = ("localhost", 19092)
BROKERS = """
> Metadata v1 {"topics": [{"name": "orders"}]}
< {"brokers": [{"node_id": 1, "host": "kafka-1", "port": 9092}, {"node_id": 2, "host": "kafka-2", "port": 9093}],
  "controller_id": 2}
"""
HEARTBEATS = """
> Heartbeat v4 {"group_id": "a"}
< {"error_code": 27}
2> Heartbeat v4 {"group_id": "b"}
2< {"error_code": 25}
> Heartbeat v4 {"group_id": "a"}
< {}
> Heartbeat v3 {"group_id": "a"}
"""


def answer_heartbeat(answers: CapturedAnswers, group: str, version: int = 4, correlation_id: int = 1) -> CapturedAnswer:
    frame = request("Heartbeat", version, {"group_id": group}, correlation_id=correlation_id, client_id="another")
    return answers.answer(frame, ADDRESS)


def error_code(captured_answer: CapturedAnswer) -> int:
    assert captured_answer.frame is not None
    code = read_response(captured_answer.frame, 12, 4).body["error_code"]
    assert isinstance(code, int)
    return code


def test_equal_requests_are_answered_with_their_responses_in_turn() -> None:
    answers = CapturedAnswers(steps(HEARTBEATS))
    assert [error_code(answer_heartbeat(answers, "a")) for _ in range(3)] == [27, 0, 0]
    assert error_code(answer_heartbeat(answers, "b")) == 25


def test_unknown_request_is_answered_with_the_next_response_of_its_version() -> None:
    answers = CapturedAnswers(steps(HEARTBEATS))
    assert error_code(answer_heartbeat(answers, "b")) == 25
    assert [error_code(answer_heartbeat(answers, "c")) for _ in range(3)] == [27, 0, 0]


def test_request_without_a_captured_response_is_not_answered() -> None:
    assert answer_heartbeat(CapturedAnswers(steps(HEARTBEATS)), "a", version=3).frame is None


def test_version_that_is_not_in_the_capture_is_rejected() -> None:
    answers = CapturedAnswers(steps(HEARTBEATS))
    with pytest.raises(UnknownRequestError, match=r"the capture has no Heartbeat v2$"):
        answer_heartbeat(answers, "a", version=2)
    with pytest.raises(UnknownRequestError, match="the capture has no API 4660 v1"):
        answers.answer(bytes.fromhex("0000000a 1234 0001 00000007 ffff"), ADDRESS)
    with pytest.raises(UnknownRequestError):
        answers.answer(bytes(4), ADDRESS)


def test_response_has_the_correlation_id_of_the_request() -> None:
    captured_answer = answer_heartbeat(CapturedAnswers(steps(HEARTBEATS)), "a", correlation_id=77)
    assert captured_answer.frame is not None
    assert read_response(captured_answer.frame, 12, 4).correlation_id == 77


def test_every_broker_is_listed_with_the_address_of_the_server() -> None:
    frame = request("Metadata", 1, {"topics": [{"name": "orders"}]})
    captured_answer = CapturedAnswers(steps(BROKERS)).answer(frame, ADDRESS)
    assert captured_answer.frame is not None
    body = read_response(captured_answer.frame, 3, 1).body
    assert [(broker["node_id"], broker["host"], broker["port"]) for broker in body["brokers"]] == [
        (1, *ADDRESS),
        (2, *ADDRESS),
    ]
    assert body["controller_id"] == 2


def test_invalid_response_is_replayed_unchanged() -> None:
    invalid_story = "> Heartbeat v4 {}\n< hex 0000000b 00000001 00000000 000000"
    captured_answer = CapturedAnswers(steps(invalid_story)).answer(
        request("Heartbeat", 4, {}, correlation_id=9), ADDRESS
    )
    assert captured_answer.frame == bytes.fromhex("0000000b 00000009 00000000 000000")


VERSIONS = """
> ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
< {"api_keys": [{"api_key": 3, "min_version": 9, "max_version": 5}, {"api_key": 1, "max_version": 9},
  {"api_key": 12, "max_version": 4}, {"api_key": 17, "max_version": 1},
  {"api_key": 18, "max_version": 4}], "finalized_features_epoch": 7}
3> Metadata v9 {}
"""


@pytest.mark.parametrize("version", [0, 3, 4, 99])
def test_api_versions_advertises_the_captured_versions(version: int) -> None:
    """This holds for any version of the ApiVersions request."""
    answers = CapturedAnswers(steps(VERSIONS + HEARTBEATS))
    api_versions = (
        bytes.fromhex(f"0000000b 0012 {version:04x} fffffffe ffff 00")
        if version > 4
        else request("ApiVersions", version, {}, correlation_id=-2)
    )
    message = read_response(answers.answer(api_versions, ADDRESS).frame or b"", 18, 0 if version > 4 else version)
    assert (message.well_formed, message.correlation_id) == (True, -2)
    assert message.body["error_code"] == (35 if version > 4 else 0)
    assert {key["api_key"]: (key["min_version"], key["max_version"]) for key in message.body["api_keys"]} == {
        3: (9, 5), 12: (3, 4), 17: (0, 1), 18: (0, 5),
    }  # fmt: skip
    assert message.body.get("finalized_features_epoch", 7) == 7


def test_undecodable_api_versions_response_is_replayed_unchanged() -> None:
    invalid_story = "> ApiVersions v0 {}\n< hex 0000000b 00000001 0000 00000001 00"
    captured_answer = CapturedAnswers(steps(invalid_story)).answer(
        request("ApiVersions", 0, {}, correlation_id=9), ADDRESS
    )
    assert captured_answer.frame == bytes.fromhex("0000000b 00000009 0000 00000001 00")


def test_api_versions_is_rejected_if_the_capture_has_none() -> None:
    with pytest.raises(UnknownRequestError, match="the capture has no ApiVersions v3"):
        CapturedAnswers(steps(HEARTBEATS)).answer(request("ApiVersions", 3, {}), ADDRESS)


def answer_login(login: AcceptedLogin, api: str, version: int, body: dict[str, Any]) -> dict[str, Any] | None:
    sasl_request = read_request(request(api, version, body, correlation_id=5))
    frame = login.answer(sasl_request)
    if frame is None:
        return None
    sasl_response = read_response(frame, sasl_request.api_key, version)
    assert (sasl_response.well_formed, sasl_response.correlation_id) == (True, 5)
    return sasl_response.body


def test_login_with_any_secret_is_accepted() -> None:
    login = AcceptedLogin()
    assert answer_login(login, "SaslHandshake", 1, {"mechanism": "PLAIN"}) == {
        "error_code": 0, "mechanisms": ["PLAIN", "OAUTHBEARER"],
    }  # fmt: skip
    body = answer_login(login, "SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0x"})
    assert body == {"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime_ms": 0}
    assert answer_login(login, "Heartbeat", 4, {"group_id": "g"}) is None


def test_login_without_headers_is_accepted() -> None:
    login = AcceptedLogin()
    answer_login(login, "SaslHandshake", 0, {"mechanism": "PLAIN"})
    assert login.answer(read_request(bytes.fromhex("00000004 00616200"))) == bytes(4)
    assert answer_login(login, "Heartbeat", 4, {"group_id": "g"}) is None


def test_other_mechanisms_are_offered_instead_of_scram() -> None:
    login = AcceptedLogin()
    body = answer_login(login, "SaslHandshake", 0, {"mechanism": "SCRAM-SHA-256"})
    assert body == {"error_code": 33, "mechanisms": ["PLAIN", "OAUTHBEARER"]}
    assert answer_login(login, "Heartbeat", 4, {"group_id": "g"}) is None


async def test_server_closes_the_connection_on_an_unknown_request() -> None:
    reports: list[str] = []
    async with ReplayServer(CapturedAnswers(steps(HEARTBEATS)), reports.append) as server:
        server.advertise(0, *ADDRESS)
        client, idle_client = await server.connect(0, "10.0.0.9"), await server.connect(0, "10.0.0.8")
        reader, writer = await asyncio.open_connection(sock=client)
        writer.write(request("SaslAuthenticate", 1, {"auth_bytes": b"secret"}))
        assert read_response(await read_frame(reader), 36, 1).well_formed
        writer.write(request("Heartbeat", 4, {"group_id": "a"}) + request("Heartbeat", 4, {"group_id": "b"}))
        codes = [read_response(await read_frame(reader), 12, 4).body["error_code"] for _ in range(2)]
        writer.write(request("Heartbeat", 0, {"group_id": "a"}))
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert isinstance(idle_client, socket.socket)
    with idle_client:  # a connected client does not keep the server from closing
        assert idle_client.recv(1) == b""
    assert codes == [27, 25]
    assert reports == ["10.0.0.9: the capture has no Heartbeat v0; connection closed"]


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))
