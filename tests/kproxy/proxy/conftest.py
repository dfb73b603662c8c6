"""What every test of the relay runs under."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx


@pytest.fixture(autouse=True)
def _nothing_blocks_the_event_loop() -> Iterator[None]:
    with blockbuster_ctx("kproxy"):
        yield
