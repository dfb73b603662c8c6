"""Samples of record data written by Kafka's own classes: `row` runs a test on each, `sample` returns one by name."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_FILE = Path(__file__).parents[2] / "data" / "records.jsonl.gz"
with gzip.open(_FILE, "rt", encoding="utf-8") as lines:
    ROWS = [json.loads(line) for line in lines]
for row in ROWS:
    row["data"] = bytes.fromhex(row["hex"])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "row" in metafunc.fixturenames:
        metafunc.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])


@pytest.fixture(scope="session")
def sample() -> Callable[[str], bytes]:
    by_name: dict[str, Any] = {row["name"]: row["data"] for row in ROWS}
    return by_name.__getitem__
