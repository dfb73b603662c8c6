"""Cells of rows."""

from __future__ import annotations

import pytest

from dissectors.schemas.codes import Error
from kproxy.browse.rows.columns import problems
from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.rows.index import RowState
from kproxy.trace.lines import ErrorEntry
from tests.kproxy.browse.sessions import request, response


@pytest.mark.parametrize(
    ("api", "names", "style"),
    [
        ("JoinGroup", ["MEMBER_ID_REQUIRED"], "dim"),
        ("JoinGroup", ["MEMBER_ID_REQUIRED", "NOT_COORDINATOR"], "error"),
        ("ApiVersions", ["UNSUPPORTED_VERSION"], "dim"),
        ("Fetch", ["UNSUPPORTED_VERSION"], "error"),
    ],
)
def test_only_errors_that_are_not_routine_are_highlighted(api: str, names: list[str], style: str) -> None:
    request_line = request(1, api=api)
    errors = [ErrorEntry("", Error[name].value, name) for name in names]
    exchange = Exchange(0, RowState.ANSWERED, request_line, response(request_line, errors=errors))
    assert problems(exchange, "") == [(", ".join(names), style)]
