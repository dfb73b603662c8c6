"""Messages that suggest installing an extra show a command that works."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import metadata

import pytest

from kproxy.io import extras


@pytest.mark.parametrize(("extra", "package"), [("tls", "cryptography"), ("web", "aiohttp"), ("spark", "pyspark")])
def test_command_uses_this_python_and_the_packages_of_the_extra(extra: str, package: str) -> None:
    command = shlex.split(extras.install_command(extra))
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert any(requirement.startswith(package) for requirement in command[4:])
    assert not any("kproxy" in requirement for requirement in command[4:])


@pytest.mark.slow
def test_pip_accepts_the_command() -> None:
    command = shlex.split(extras.install_command("tls"))
    process = subprocess.run([*command, "--dry-run", "--no-index"], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr  # cryptography is installed, so no index is needed


def test_uv_is_suggested_if_pip_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None)
    assert extras.install_command("web").startswith(f"uv pip install --python {sys.executable} ")


def test_source_tree_without_metadata_suggests_a_local_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert extras.install_command("tls") == "pip install '.[tls]' in a checkout of kproxy"
