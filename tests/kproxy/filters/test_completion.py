from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.filters import FilterError, complete, parse


@pytest.mark.parametrize(
    ("text", "expected_words"),
    [
        ("ap", ["api", "api_key", "api_version"]),
        ("api=Fet", ["Fetch", "FetchSnapshot"]),
        ("api=fet", ["Fetch", "FetchSnapshot"]),
        ("api in (Fetch, Heart", ["Heartbeat"]),
        ("api not in (", None),
        ("api in (Fetch ", [",", ")"]),
        ("api not ", ["in"]),
        ("api in ", ["("]),
        ("kind = re", ["request", "response"]),
        ("not (tls=", ["true", "false"]),
        ("severity>", ["info", "warning", "error"]),
        ("compression=", ["none", "gzip", "snappy", "lz4", "zstd"]),
        ("error=NOT_L", ["NOT_LEADER_OR_FOLLOWER"]),
        ("api=Fetch and thr", ["throttle_time_ms", "throttle"]),
        ("api && !thr", ["throttle_time_ms", "throttle"]),
        ("api=Fetch ", ["and", "or"]),
        ("(api='Fetch') o", ["or"]),
        ("finding ", ["=", "!=", "~", "!~", "in", "not in", "and", "or"]),
        ("latency ", ["=", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]),
        ("ts ", ["=", "!=", "<", "<=", ">", ">=", "~", "!~", "in", "not in", "and", "or"]),
        ("tls ", ["=", "!=", "in", "not in", "and", "or"]),
        ("topic=", []),
        ("topic='ab", []),
        ("unknown=", []),
        ("api api ", []),
        ("api=Fetch and and ", []),
        ("\u0130", []),
    ],
)
def test_valid_words_at_the_cursor_are_suggested(text: str, expected_words: list[str] | None) -> None:
    suggestions = complete(text, len(text))
    assert suggestions == expected_words if expected_words is not None else len(suggestions) == 95


def test_only_text_before_the_cursor_is_considered() -> None:
    assert complete("api=Fet and topic=x", 7) == ["Fetch", "FetchSnapshot"]


def test_fields_are_suggested_wherever_a_term_can_start() -> None:
    assert complete("", 0) == complete("not (", 5) == complete("api or ", 7)
    assert {"api", "latency", "topic", "not"} <= set(complete("", 0))


@given(text=st.text(alphabet="api=<>!~&|(),'\" notrelFd"), cursor=st.integers(0, 20))
def test_completing_any_text_never_raises(text: str, cursor: int) -> None:
    for word in complete(text, cursor):
        assert word


@pytest.mark.parametrize("prefix", ["", "api=Fetch and ", "not (", "api=", "kind in (open, ", "error!="])
def test_suggestions_are_valid(prefix: str) -> None:
    for word in complete(prefix, len(prefix)):
        text = prefix + word
        try:
            parse(text)
        except FilterError as error:  # the filter may be incomplete, but must be valid up to there
            assert error.start in (len(text), prefix.find("("))  # noqa: PT017
