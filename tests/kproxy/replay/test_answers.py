"""Requests answered by captured responses: which one, and what is changed in it."""

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

HERE = ("localhost", 19092)
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


def heartbeat(answers: CapturedAnswers, group: str, version: int = 4, correlation_id: int = 1) -> CapturedAnswer:
    frame = request("Heartbeat", version, {"group_id": group}, correlation_id=correlation_id, client_id="another")
    return answers.answer(frame, HERE)


def error_code(answer: CapturedAnswer) -> int:
    assert answer.frame is not None
    code = read_response(answer.frame, 12, 4).body["error_code"]
    assert isinstance(code, int)
    return code


def test_equal_requests_get_their_responses_in_turn_and_then_the_last_one() -> None:
    answers = CapturedAnswers(steps(HEARTBEATS))
    assert [error_code(heartbeat(answers, "a")) for _ in range(3)] == [27, 0, 0]
    assert error_code(heartbeat(answers, "b")) == 25


def test_other_requests_get_the_next_response_of_their_version() -> None:
    answers = CapturedAnswers(steps(HEARTBEATS))
    assert error_code(heartbeat(answers, "b")) == 25
    assert [error_code(heartbeat(answers, "c")) for _ in range(3)] == [27, 0, 0]


def test_a_request_that_was_not_answered_is_not_answered() -> None:
    assert heartbeat(CapturedAnswers(steps(HEARTBEATS)), "a", version=3).frame is None


def test_a_version_that_is_not_in_the_capture() -> None:
    answers = CapturedAnswers(steps(HEARTBEATS))
    with pytest.raises(UnknownRequestError, match=r"the capture has no Heartbeat v2$"):
        heartbeat(answers, "a", version=2)
    with pytest.raises(UnknownRequestError, match="the capture has no API 4660 v1"):
        answers.answer(bytes.fromhex("0000000a 1234 0001 00000007 ffff"), HERE)
    with pytest.raises(UnknownRequestError):
        answers.answer(bytes(4), HERE)


def test_the_correlation_id_is_that_of_the_request() -> None:
    answer = heartbeat(CapturedAnswers(steps(HEARTBEATS)), "a", correlation_id=77)
    assert answer.frame is not None
    assert read_response(answer.frame, 12, 4).correlation_id == 77


def test_every_broker_is_here() -> None:
    frame = request("Metadata", 1, {"topics": [{"name": "orders"}]})
    answer = CapturedAnswers(steps(BROKERS)).answer(frame, HERE)
    assert answer.frame is not None
    body = read_response(answer.frame, 3, 1).body
    assert [(broker["node_id"], broker["host"], broker["port"]) for broker in body["brokers"]] == [
        (1, *HERE),
        (2, *HERE),
    ]
    assert body["controller_id"] == 2


def test_what_the_broker_wrote_wrong_is_kept() -> None:
    wrong = "> Heartbeat v4 {}\n< hex 0000000b 00000001 00000000 000000"
    answer = CapturedAnswers(steps(wrong)).answer(request("Heartbeat", 4, {}, correlation_id=9), HERE)
    assert answer.frame == bytes.fromhex("0000000b 00000009 00000000 000000")


VERSIONS = """
> ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
< {"api_keys": [{"api_key": 3, "min_version": 9, "max_version": 5}, {"api_key": 1, "max_version": 9},
  {"api_key": 12, "max_version": 4}, {"api_key": 17, "max_version": 1},
  {"api_key": 18, "max_version": 4}], "finalized_features_epoch": 7}
3> Metadata v9 {}
"""


@pytest.mark.parametrize("version", [0, 3, 4, 99])
def test_clients_choose_a_captured_version(version: int) -> None:
    """Whatever version of ApiVersions they ask for."""
    answers = CapturedAnswers(steps(VERSIONS + HEARTBEATS))
    asked = (
        bytes.fromhex(f"0000000b 0012 {version:04x} fffffffe ffff 00")
        if version > 4
        else request("ApiVersions", version, {}, correlation_id=-2)
    )
    answer = read_response(answers.answer(asked, HERE).frame or b"", 18, 0 if version > 4 else version)
    assert (answer.well_formed, answer.correlation_id) == (True, -2)
    assert answer.body["error_code"] == (35 if version > 4 else 0)
    assert {key["api_key"]: (key["min_version"], key["max_version"]) for key in answer.body["api_keys"]} == {
        3: (9, 5), 12: (3, 4), 17: (0, 1), 18: (0, 5),
    }  # fmt: skip
    assert answer.body.get("finalized_features_epoch", 7) == 7


def test_an_api_versions_response_that_does_not_decode_is_kept() -> None:
    wrong = "> ApiVersions v0 {}\n< hex 0000000b 00000001 0000 00000001 00"
    answer = CapturedAnswers(steps(wrong)).answer(request("ApiVersions", 0, {}, correlation_id=9), HERE)
    assert answer.frame == bytes.fromhex("0000000b 00000009 0000 00000001 00")


def test_without_api_versions_in_the_capture_there_is_no_answer() -> None:
    with pytest.raises(UnknownRequestError, match="the capture has no ApiVersions v3"):
        CapturedAnswers(steps(HEARTBEATS)).answer(request("ApiVersions", 3, {}), HERE)


def accepted(login: AcceptedLogin, api: str, version: int, body: dict[str, Any]) -> dict[str, Any] | None:
    asked = read_request(request(api, version, body, correlation_id=5))
    frame = login.answer(asked)
    if frame is None:
        return None
    answer = read_response(frame, asked.api_key, version)
    assert (answer.well_formed, answer.correlation_id) == (True, 5)
    return answer.body


def test_a_login_is_accepted_whatever_the_secret_is() -> None:
    login = AcceptedLogin()
    assert accepted(login, "SaslHandshake", 1, {"mechanism": "PLAIN"}) == {
        "error_code": 0, "mechanisms": ["PLAIN", "OAUTHBEARER"],
    }  # fmt: skip
    answer = accepted(login, "SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0x"})
    assert answer == {"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime_ms": 0}
    assert accepted(login, "Heartbeat", 4, {"group_id": "g"}) is None


def test_a_login_without_headers() -> None:
    login = AcceptedLogin()
    accepted(login, "SaslHandshake", 0, {"mechanism": "PLAIN"})
    assert login.answer(read_request(bytes.fromhex("00000004 00616200"))) == bytes(4)
    assert accepted(login, "Heartbeat", 4, {"group_id": "g"}) is None


def test_a_client_that_checks_the_brokers_signature_is_told_which_mechanisms_work() -> None:
    login = AcceptedLogin()
    answer = accepted(login, "SaslHandshake", 0, {"mechanism": "SCRAM-SHA-256"})
    assert answer == {"error_code": 33, "mechanisms": ["PLAIN", "OAUTHBEARER"]}
    assert accepted(login, "Heartbeat", 4, {"group_id": "g"}) is None


async def test_clients_of_a_server_are_answered_until_they_ask_for_what_is_not_there() -> None:
    reports: list[str] = []
    async with ReplayServer(CapturedAnswers(steps(HEARTBEATS)), reports.append) as server:
        server.advertise(0, *HERE)
        client, other = await server.connect(0, "10.0.0.9"), await server.connect(0, "10.0.0.8")
        reader, writer = await asyncio.open_connection(sock=client)
        writer.write(request("SaslAuthenticate", 1, {"auth_bytes": b"secret"}))
        assert read_response(await frame(reader), 36, 1).well_formed
        writer.write(request("Heartbeat", 4, {"group_id": "a"}) + request("Heartbeat", 4, {"group_id": "b"}))
        codes = [read_response(await frame(reader), 12, 4).body["error_code"] for _ in range(2)]
        writer.write(request("Heartbeat", 0, {"group_id": "a"}))
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert isinstance(other, socket.socket)
    with other:  # a client that is connected does not keep the server
        assert other.recv(1) == b""
    assert codes == [27, 25]
    assert reports == ["10.0.0.9: the capture has no Heartbeat v0; connection closed"]


async def frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))
