"""Edits as JSON and as sentences, exactly as in the table of docs/edits.md."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.diagnosis.candidates import single_edits
from dissectors.diagnosis.diagnose import right_layout
from dissectors.edits import KINDS, Edit, EditError, parse
from dissectors.messages.message import read_response

PAGE = (Path(__file__).parents[3] / "docs" / "edits.md").read_text("utf-8")
#: The JSON and the sentence of each kind.
TABLE = [(json.loads(edit_json), text) for edit_json, text in re.findall(r"```json\n(.*?)\n```\n\n> (.*)\n", PAGE)]
#: Any edit of the table, or up to three of them, each applied on top of the previous one.
EDITS = st.sampled_from([parse(edit_json) for edit_json, _ in TABLE])
COMPOSED = st.lists(EDITS, min_size=1, max_size=3).map(
    lambda steps: steps[0] if len(steps) == 1 else steps[0].followed_by(chain_edits(steps[1:]))
)

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(sorted(KINDS)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "field", "detail", "then", "where", "x"]), inner)
    ),
    max_leaves=20,
)


def chain_edits(steps: list[Edit]) -> Edit:
    first, *rest = steps
    return first.followed_by(chain_edits(rest)) if rest else first


def test_every_kind_is_documented_once() -> None:
    assert sorted(edit_json["kind"] for edit_json, _ in TABLE) == sorted(KINDS)


@pytest.mark.parametrize(("edit_json", "text"), TABLE, ids=[edit_json["kind"] for edit_json, _ in TABLE])
def test_notation_matches_the_documentation(edit_json: dict[str, Any], text: str) -> None:
    edit = parse(edit_json)
    assert edit.as_json() == edit_json
    assert list(edit.as_json()) == ["kind", "field", "detail"]
    assert str(edit) == text
    assert f"`{edit.kind}`" + (f" (`{'`, `'.join(edit_json['detail'])}`)" if edit_json["detail"] else "") + ":" in PAGE


@pytest.mark.parametrize(
    "written", re.findall(r"`(\w+)`", PAGE.partition("`record_encoding` (`written`)")[2].partition(".")[0])
)
def test_documented_record_encodings_exist(written: str) -> None:
    assert "records are written as" not in str(Edit.of("record_encoding", "records", written=written))


def test_second_edit_is_stored_under_then() -> None:
    first = Edit.of("body_version", "*", body_version=8, header=None)
    second = Edit.of("tag_buffer_missing", "header._tags")
    combined_edit = first.followed_by(second)
    assert combined_edit.as_json() == first.as_json() | {"then": second.as_json()}
    assert str(combined_edit) == "the whole body has the layout of version 8, and the header has no tag buffer"
    assert combined_edit.steps == (first, second)
    assert json.dumps(combined_edit.as_json()) in " ".join(PAGE.split())


@given(COMPOSED)
def test_json_round_trip_gives_the_same_edit(edit: Edit) -> None:
    parsed = parse(json.loads(json.dumps(edit.as_json())))
    assert parsed == edit
    assert hash(parsed) == hash(edit)
    assert parsed.steps == edit.steps


@pytest.mark.parametrize(("api_key", "version"), [(3, 5), (3, 12), (1, 11), (18, 3), (11, 6)])
def test_candidates_survive_a_json_round_trip(api_key: int, version: int) -> None:
    layout = right_layout(read_response(bytes(8), api_key, version))
    assert layout is not None
    for candidate in single_edits(layout, version):
        edit = candidate.edit
        assert parse(json.loads(json.dumps(edit.as_json()))) == edit
        assert str(edit)
        assert "{" not in str(edit)


def test_from_is_spelled_with_an_underscore_only_in_python() -> None:
    edit = Edit.of("field_moved", "throttle_time_ms", from_=0, to=4)
    assert edit.as_json()["detail"] == {"from": 0, "to": 4}
    assert dict(edit.detail) == {"from": 0, "to": 4}


@pytest.mark.slow
@given(JUNK)
def test_arbitrary_json_is_parsed_or_rejected(junk: Any) -> None:
    try:
        edit = parse(junk)
    except EditError:
        return
    assert parse(edit.as_json()) == edit
    assert str(edit)


@pytest.mark.slow
@given(EDITS, st.data())
def test_arbitrary_details_are_accepted_or_rejected(edit: Edit, data: st.DataObject) -> None:
    edit_json = edit.as_json()
    edit_json["detail"] = {name: data.draw(JUNK) for name in edit_json["detail"]}
    try:
        parsed = parse(edit_json)
    except EditError:
        return
    assert str(parsed)


@pytest.mark.parametrize(
    ("edit_json", "message_start"),
    [
        ({}, 'an edit is {"kind", "field", "detail"}'),
        ([], 'an edit is {"kind", "field", "detail"}'),
        ("field_moved", 'an edit is {"kind", "field", "detail"}'),
        ({"kind": "field_movd", "field": "a"}, "unknown edit kind 'field_movd'; use one of field_moved, "),
        ({"kind": ["field_moved"], "field": "a"}, "kind and field of an edit must be strings"),
        ({"kind": "field_moved", "field": 3}, "kind and field of an edit must be strings"),
        ({"kind": "field_moved", "field": "a", "detail": {"from": 1}}, "field_moved takes from, to, not from"),
        (
            {"kind": "generic_error_body", "field": "*", "detail": {"x": 1}},
            "generic_error_body takes no details, not x",
        ),
        (
            {"kind": "field_missing", "field": "a", "detail": {"where": "1"}},
            "where of field_missing must be of type int, not '1'",
        ),
        (
            {"kind": "field_missing", "field": "a", "detail": {"where": True}},
            "where of field_missing must be of type int, not True",
        ),
        ({"kind": "generic_error_body", "field": "*", "detail": [1]}, 'an edit is {"kind", "field", "detail"}'),
        ({"kind": "generic_error_body", "field": "*", "detail": {1: 2}}, "the details of an edit must have names"),
        ({"kind": "generic_error_body", "field": "*", "then": "x"}, 'an edit is {"kind", "field", "detail"}'),
        (
            {"kind": "embedded_layout", "field": "a", "detail": {"payload": "X", "edit": "x"}},
            "edit of embedded_layout must be of type Edit, not 'x'",
        ),
    ],
)
def test_invalid_edit_is_rejected_with_a_sentence(edit_json: Any, message_start: str) -> None:
    with pytest.raises(EditError) as raised:
        parse(edit_json)
    assert str(raised.value).startswith(message_start)


def test_deeply_nested_edits_are_rejected() -> None:
    nested: dict[str, Any] = {"kind": "generic_error_body", "field": "*"}
    chained = dict(nested)
    for _ in range(10_000):
        nested = {"kind": "embedded_layout", "field": "a", "detail": {"payload": "X", "edit": nested}}
        chained = {"kind": "generic_error_body", "field": "*", "then": chained}
    for edit_json in (nested, chained):
        with pytest.raises(EditError, match="an edit can contain at most 8"):
            parse(edit_json)
