"""Fixtures for every test of the relay."""

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
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tls_relay.Certificates:
    """Matching certificates of one CA, and a CA that nobody trusts."""
    return tls_relay.issue_certificates(tmp_path_factory.mktemp("certificates"))
