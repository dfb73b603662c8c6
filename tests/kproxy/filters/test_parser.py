from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kproxy.filters import FilterError, parse
from kproxy.filters.errors import corrected_name
from kproxy.filters.fields import BY_NAME, FIELDS, Kind, field_named
from kproxy.filters.nodes import And, Comparison, Node, Not, Or, Presence, Text, Value
from kproxy.filters.parser import parse_node

TEXT_FIELDS = [field for field in FIELDS if field.kind is Kind.TEXT]
WORDS = st.from_regex(r"[a-zA-Z0-9*?._:/$^%\[\]{}\\#-]{1,8}", fullmatch=True).filter(
    lambda word: word.lower() not in ("and", "or", "not", "in")
)
VALUES = st.builds(Value, WORDS, st.just(False)) | st.builds(Value, st.text(max_size=8), st.just(True))
COMPARISONS = st.builds(
    lambda field, operator, value, negated: Comparison(field, operator, (value,), negated and operator in "=~"),
    st.sampled_from(TEXT_FIELDS),
    st.sampled_from(["=", "~", "<", ">="]),
    VALUES,
    st.booleans(),
)
MEMBERSHIPS = st.builds(
    lambda field, values, negated: Comparison(field, "in", tuple(values), negated),
    st.sampled_from(TEXT_FIELDS),
    st.lists(VALUES, min_size=1, max_size=3),
    st.booleans(),
)
TEXTS = st.builds(Text, st.builds(Value, st.text(min_size=1, max_size=8), st.just(True))) | st.builds(
    Text,
    st.builds(
        Value, WORDS.filter(lambda word: not field_named(word) and not corrected_name(word, BY_NAME)), st.just(False)
    ),
)
NODES: st.SearchStrategy[Node] = st.recursive(
    COMPARISONS | MEMBERSHIPS | st.builds(Presence, st.sampled_from(FIELDS)) | TEXTS,
    lambda terms: (
        st.builds(Not, terms)
        | st.builds(And, st.lists(terms, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(terms, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(node=NODES)
def test_printed_filter_parses_to_the_same_filter(node: Node) -> None:
    assert parse_node(str(node)) == node


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("api==Fetch&&!latency>50ms", "api=Fetch and not latency_us>50ms"),
        ("((api=Fetch)) || api_key not IN (1,2)", "api=Fetch or api_key not in (1, 2)"),
        ("NOT(error OR finding)", "not (error or finding)"),
        ('(api or client=\'a\') and group!="b\\"\\\\c"', r'(api or client="a") and group_id!="b\"\\c"'),
        (r"topic~'^\d|b$'", r'topic~"^\\d|b$"'),
        ("api and (error or finding and tls)", "api and (error or finding and tls)"),
    ],
)
def test_filters_are_printed_in_canonical_form(text: str, printed: str) -> None:
    assert str(parse(text)) == printed
    assert parse(printed) == parse(text)
    assert hash(parse(printed)) == hash(parse(text))
    assert repr(parse(text)) == f"parse({printed!r})"


def test_different_filters_are_not_equal() -> None:
    assert parse("api=Fetch") != parse("api=Produce")
    assert parse("topic=a*") != parse('topic="a*"')


@pytest.mark.parametrize(
    ("text", "marked_text", "message"),
    [
        ("api=Fetch and lattency>5ms", "lattency", "unknown field 'lattency' at column 15: did you mean 'latency'?"),
        ("TOPIC=a", "TOPIC", "unknown field 'TOPIC' at column 1: did you mean 'topic'?"),
        ("xyzzy=1", "xyzzy", "unknown field 'xyzzy' at column 1"),
        ("", "", "a field is missing at column 1: a term looks like api=Fetch"),
        ("api=Fetch and", "", "a field is missing at column 14: a term looks like api=Fetch"),
        ("and", "and", "a field is missing at column 1: a term looks like api=Fetch"),
        ('"api"=Fetch', '"api"', "a field is missing at column 1: a term looks like api=Fetch"),
        ("api=", "", "a value is missing after '=' at column 5"),
        ("api!=or", "or", "a value is missing after '!=' at column 6: quote it: \"or\""),
        ("api=(Fetch, Produce)", "(", "a value is missing after '=' at column 5: use in (...) for several values"),
        (
            "api=Fetch topic=a",
            "topic",
            "'and' or 'or' is missing at column 11: quote values that contain spaces or operators",
        ),
        ("(api=Fetch", "(", "'(' without ')' at column 1"),
        (
            "(api=Fetch topic",
            "topic",
            "'and' or 'or' is missing at column 12: quote values that contain spaces or operators",
        ),
        ("api=Fetch)", ")", "')' without '(' at column 10"),
        ("api in Fetch", "Fetch", "'(' is missing after 'in' at column 8: example: in (Fetch, Produce)"),
        ("api in (Fetch Produce)", "Produce", "',' or ')' is missing at column 15"),
        ("api in ()", ")", "a value is missing after '(' at column 9"),
        ("api not Fetch", "Fetch", "'in' is missing after 'not' at column 9: use not api, or api not in (...)"),
        ("topic='a", "'a", "unterminated string at column 7"),
        ("topic=a|b", "|", "unexpected '|' at column 8: use || to join terms, or quote the value"),
        ("api=Fecth", "Fecth", "unknown api 'Fecth' at column 5: did you mean 'Fetch'?"),
        (
            "error=NOT_LEADER",
            "NOT_LEADER",
            "unknown error 'NOT_LEADER' at column 7: did you mean 'NOT_LEADER_OR_FOLLOWER'?",
        ),
        ("gro=a", "gro", "unknown field 'gro' at column 1: did you mean 'group'?"),
        ("kind=x", "x", "unknown kind 'x' at column 6: use open, request, response, finding, gap, stall, close"),
        ("api in (Fetch, Foo!)", "!", "',' or ')' is missing at column 19"),
        ("latency>fast", "fast", "'fast' is not a duration at column 9: e.g. 50ms"),
        ("latency>5h", "5h", "unknown unit 'h' for latency_us at column 9: use us, µs, ms, s, m"),
        ("size>5ms", "5ms", "unknown unit 'ms' for size at column 6: use B, KB, KiB, MB, MiB"),
        ("version=v3", "v3", "'v3' is not a number at column 9: use digits"),
        ("version=3ms", "3ms", "unknown unit 'ms' for api_version at column 9: use digits"),
        ("version=1*", "1*", "'1*' is not a number at column 9: use digits"),
        (
            "ts>yesterday",
            "yesterday",
            "'yesterday' is not a time at column 4: use 2025-01-31, 2025-01-31T12:00 or 2025-01-31T12:00:00.5Z (UTC)",
        ),
        ("tls=maybe", "maybe", "unknown tls 'maybe' at column 5: use true, false"),
        ("tls=t*", "t*", "unknown tls 't*' at column 5: use true, false"),
        ("api<5", "<", "api does not support '<' at column 4: use =, ~ or in (...)"),
        ("tls~t", "~", "tls is a flag; '~' searches text only at column 4: write ="),
        ("latency!~5", "!~", "latency_us is a duration; '~' searches text only at column 8: write ="),
        ("topic~a*+", "+", "invalid pattern 'a*+': unexpected '+' at column 9"),
        (
            'topic~"a(b"',
            "(",
            "invalid pattern 'a(b': unclosed '(': use \\( for the character at column 9",
        ),
        (r'topic~"\\b"', r'"\\b"', r"invalid pattern '\\b': unexpected '\\b' at column 7"),
    ],
)
def test_error_message_has_a_position_and_advice(text: str, marked_text: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert str(caught.value) == message
    assert text[caught.value.start : caught.value.end] == marked_text


@pytest.mark.parametrize("text", ["(" * 5000 + "api" + ")" * 5000, "not " * 5000 + "api"])
def test_deep_nesting_is_rejected(text: str) -> None:
    with pytest.raises(FilterError, match="parentheses are nested too deeply"):
        parse(text)


def test_long_filter_is_parsed() -> None:
    assert parse(" or ".join(f"api_key={number}" for number in range(5000))).matches({"api_key": 4999})


@given(text=st.text() | st.text(alphabet="api=<>!~&|(),'\"\\ notriLk*?50mz"))
@example(text="api!~\\")
def test_any_text_is_a_valid_filter_or_an_error_with_a_position(text: str) -> None:
    try:
        parse(text)
    except FilterError as caught:
        error = caught
    else:
        return
    assert 0 <= error.start <= error.end <= len(text)


def test_every_name_of_every_field_is_accepted() -> None:
    for name in BY_NAME:
        assert parse(name).matches({}) is False
