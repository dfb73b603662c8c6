from typing import Any

import pytest

from dissectors import embedded
from tests.dissectors.embedded.samples import PAYLOADS, join_request, node_at, response, tree

URL = "http://w1:8083/"


def worker_state(name: str) -> dict[str, Any]:
    [protocol] = embedded.expand(join_request(PAYLOADS[name], "sessioned", "connect"))["protocols"]
    return dict(protocol["metadata"])


def expand_assignment(name: str) -> dict[str, Any]:
    message = response("SyncGroup", 5, protocol_type="connect", assignment=PAYLOADS[name])
    return dict(embedded.expand(message)["assignment"])


EAGER_ASSIGNMENT = {
    "error": 0,
    "leader": "worker-1",
    "leader_url": URL,
    "config_offset": 13,
    "assignment": [{"connector": "file-sink", "tasks": [-1, 0, 1]}],
}
COOPERATIVE_ASSIGNMENT = {**EAGER_ASSIGNMENT, "revoked": [{"connector": "old", "tasks": [-1]}], "delay": 300_000}


def test_eager_worker_state_has_url_and_config_offset() -> None:
    expected = {"type": "ConnectWorkerState", "version": 0, "data": {"url": URL, "config_offset": 13}}
    assert worker_state("connect-meta-0") == expected


@pytest.mark.parametrize("version", [1, 2])
def test_cooperative_worker_state_has_its_assignment(version: int) -> None:
    allocation = {"type": "ConnectAssignment", "version": version, "data": COOPERATIVE_ASSIGNMENT}
    assert worker_state(f"connect-meta-{version}")["data"]["allocation"] == allocation
    assert worker_state(f"connect-meta-empty-{version}")["data"]["allocation"] is None


def test_assignment_is_decoded_in_each_version() -> None:
    assert expand_assignment("connect-assign-0")["data"] == EAGER_ASSIGNMENT
    assert expand_assignment("connect-assign-1") == {
        "type": "ConnectAssignment",
        "version": 1,
        "data": COOPERATIVE_ASSIGNMENT,
    }
    assert expand_assignment("connect-assign-2") == {
        "type": "ConnectAssignment",
        "version": 2,
        "data": COOPERATIVE_ASSIGNMENT,
    }


def test_tree_reaches_fields_of_nested_payloads() -> None:
    message = join_request(PAYLOADS["connect-meta-2"], "sessioned", "connect")
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    delay = node_at(body.children, "protocols.0.metadata.data.allocation.data.delay")
    assert (delay.value, message.frame[delay.start : delay.end]) == (300_000, (300_000).to_bytes(4, "big"))
