"""The full-detail bodies of frames that are decoded with the help of the diagnosis."""

from __future__ import annotations

from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import Detail, RequestLine

#: JoinGroup v9 whose subscription has no length (and further damage): the diagnosis reads it as a struct.
WITHOUT_LENGTH = bytes.fromhex(
    "00000114000b00090000037900086c61622d6a6176610014672d6a6176612d3232363236302d32363436300000271000"
    "0493e02e6c61622d6a6176612d36613563306436342d313634382d346665612d613936652d3732303439633337376334"
    "640009636f6e73756d6572030672616effffffff00000000ffffffffffff0013636f6f70657261746976652d73746963"
    "6b792c00030000000100116a6176612d3232363236302d323634363000000004ffffffff00000000ffffffffffff0058"
    "6e65656420746f2072652d6a6f696e20776974682074686520676976656e206d656d6265722d69643a206c61622d6a61"
    "76612d36613563306436342d313634382d346665612d613936652d37323034396333373763346400"
)


def test_body_includes_a_payload_that_the_diagnosis_reads_as_a_struct() -> None:
    inspector = Inspector("x", Detail.FULL)
    inspector.open(1, "10.0.0.9:1", "10.0.0.1:9092", at=10**18)
    [line] = inspector.receive_data(1, Direction.REQUEST, WITHOUT_LENGTH, at=10**18)
    assert isinstance(line, RequestLine)
    assert [finding.code for finding in line.findings] == ["L038"]
    assert line.body is not None
    assert line.body["protocols"][0]["metadata"]["version"] == -1
