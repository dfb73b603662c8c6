"""Frames that decode to their last byte with values that were read at the wrong offset."""

import pytest

from dissectors.diagnosis import diagnose
from dissectors.diagnosis.shift_signs import has_seam
from dissectors.edits import Edit, frame_layout, write
from dissectors.messages.message import api_layouts, read_request, read_response


@pytest.mark.parametrize(
    ("value", "width", "seam"),
    [
        (36 << 16, 4, True), (3840, 2, True), (57 << 32, 8, True), (0xBFFFFFFFFFFFF, 8, True), (-65536, 4, True),
        (0x20000001, 4, True), (933659, 4, False), (13165, 2, False), ((1 << 31) - 1, 4, False), (-(1 << 31), 4, False),
        (0, 4, False), (7, 4, False), (-1, 4, False), (1 << 15, 4, False), (-32768, 2, False),
    ],
)  # fmt: skip
def test_seam_is_where_one_number_ends_and_another_begins(value: int, width: int, seam: bool) -> None:
    assert has_seam(value, width) == seam


def test_misplaced_throttle_time_is_found_although_the_frame_decodes() -> None:
    layouts = api_layouts(12, 1)
    assert layouts is not None
    layout = frame_layout(layouts.response_header, layouts.response)
    edit = Edit.of("field_moved", "throttle_time_ms", from_=0, to=1)
    broken = write(edit, layout, {"header": {"correlation_id": 9}, "body": {"throttle_time_ms": 0, "error_code": 27}})
    message = read_response(broken, 12, 1)
    assert message.well_formed
    assert message.unusual
    diagnosis = diagnose(message)
    assert diagnosis is not None
    assert diagnosis.edit == edit
    assert diagnosis.confidence < 1


def test_unknown_error_code_alone_is_not_a_diagnosis() -> None:
    layouts = api_layouts(12, 1)
    assert layouts is not None
    layout = frame_layout(layouts.response_header, layouts.response)
    frame = write(None, layout, {"header": {"correlation_id": 9}, "body": {"throttle_time_ms": 0, "error_code": 13165}})
    assert diagnose(read_response(frame, 12, 1)) is None


def test_unknown_permission_is_a_sign_of_a_wrong_layout() -> None:
    edit = Edit.of("field_moved", "filters[].permission_type", from_=6, to=5)
    layouts = api_layouts(31, 2)
    assert layouts is not None
    layout = frame_layout(layouts.request_header, layouts.request)
    header = {"request_api_key": 31, "request_api_version": 2, "correlation_id": 9, "client_id": "admin"}
    names = ("orders", "metrics")
    filters = [
        {"resource_type_filter": 2, "resource_name_filter": name, "pattern_type_filter": 3,
         "principal_filter": "User:a", "host_filter": "*", "operation": 8, "permission_type": 3} for name in names
    ]  # fmt: skip
    message = read_request(write(edit, layout, {"header": header, "body": {"filters": filters}}))
    assert message.well_formed
    diagnosis = diagnose(message)
    assert diagnosis is not None
    assert diagnosis.edit == edit
