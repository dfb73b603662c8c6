"""The browsers that open a page: each test of a page runs in both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.browser import BasicTab as Tab
from tests.peers.browser import browser, executable
from tests.peers.firefox import firefox, firefox_executable
from tests.peers.toolchains import skip


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def tab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    program = firefox_executable() if request.param == "firefox" else executable()
    if program is None:
        skip(f"needs {request.param} on PATH")
    start = firefox if request.param == "firefox" else browser
    with start(program, tmp_path_factory.mktemp("profile")) as opened_tab:
        yield opened_tab
