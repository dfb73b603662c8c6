"""A frame has nodes for a limited number of records: a few compressed bytes can become very many records."""

from __future__ import annotations

import pytest

from dissectors import embedded
from dissectors.embedded.tree import MAX_RECORDS
from dissectors.records.encode import encode
from tests.cpu_time import cpu_seconds
from tests.dissectors.embedded.samples import fetch_response, tree

SECRET = b"hunter2-hunter2"


def gzip_batch(count: int, magic: int = 2) -> bytes:
    return encode([{"magic": magic, "compression": "gzip", "records": [{"key": b"k", "value": SECRET}] * count}])


@pytest.mark.parametrize(("magic", "limit"), [(2, MAX_RECORDS - 50), (1, MAX_RECORDS // 2 - 50)])
def test_records_above_the_limit_have_no_nodes(magic: int, limit: int) -> None:
    for count, has_nodes in ((limit, True), (2 * limit, False)):
        message = fetch_response("orders", gzip_batch(count, magic))
        _, body = tree(message)
        embedded.expand_nodes(message, body)
        field = body.children[-2].children[0].children[-2].children[0].children[-2]
        assert field.name == "records"
        assert bool(field.children) == has_nodes, field.meaning
        assert (field.meaning == "too many records to show") != has_nodes


def test_secrets_in_too_many_records_are_redacted() -> None:
    message = fetch_response("__cluster_metadata", gzip_batch(2 * MAX_RECORDS))
    assert embedded.holds_secret_topic(message)
    _, body = tree(message)
    assert embedded.expand_nodes(message, body)


@pytest.mark.slow
def test_hundred_thousand_records_take_less_than_a_second() -> None:
    message = fetch_response("orders", gzip_batch(100_000))
    _, body = tree(message)
    assert cpu_seconds(lambda: embedded.expand_nodes(message, body)) < 1
