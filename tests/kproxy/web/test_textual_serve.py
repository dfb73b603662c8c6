"""kproxy web uses internals of textual-serve, so its version is pinned; this test says what to check before a new one.

textual-serve has one public entry, `Server(command).serve()`: it binds its own port, has no access check, starts a
process for every window and forgets it when the window closes. kproxy needs its own sockets, a token, and sessions
that outlive a reload. So it builds on

- `AppService`: starts the process and encodes what is sent to it. `Session` overrides `run` and `on_meta`, and reads
  the packets of the process itself (`__GANGLION__`, then type, size and payload);
- `Server`: `WebServer` overrides `_make_app`, `handle_index`, `handle_websocket` and `on_shutdown`, and uses
  `handle_download` and the static files; `kproxy.web.messages` replaces its reading of messages.
"""

import hashlib
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from textual_serve import app_service, server

ROOT = Path(__file__).parents[3]


def test_the_version_is_pinned_exactly() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"]["web"][0] == f"textual-serve=={version('textual-serve')}"
    for name in ("constraints.txt", "constraints-lowest.txt"):
        assert f"textual-serve=={version('textual-serve')} " in (ROOT / ".ci" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "digest"),
    [(app_service, "0ac514eaee22adb4"), (server, "8518a7864539b84a")],
    ids=["app_service", "server"],
)
def test_its_internals_are_those_that_were_read(module: object, digest: str) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]
    assert hashlib.sha256(source.encode()).hexdigest()[:16] == digest, (
        f"{module} has changed: compare it with kproxy/web/session.py and server.py as above, then update the digest"
    )
