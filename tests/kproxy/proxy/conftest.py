"""What every test of the relay runs under."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx

from tests.kproxy.proxy import tls_relay


@pytest.fixture(autouse=True)
def _nothing_blocks_the_event_loop() -> Iterator[None]:
    with blockbuster_ctx("kproxy"):
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tls_relay.Certificates:
    """Certificates that fit together, and a CA that nobody trusts."""
    return tls_relay.make(tmp_path_factory.mktemp("certificates"))
