"""Toolchains: programs of other languages, built once for a test run, outside the checkout."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

GO = Path(__file__).with_name("go")
JS = Path(__file__).with_name("js")
RUST = Path(__file__).with_name("rust")


def absent(*tools: str) -> str | None:
    """Why there is no client of a toolchain here, or None."""
    needed = [tool for tool in tools if shutil.which(tool) is None]
    return f"needs {' and '.join(needed)} on PATH" if needed else None


def skip(reason: str) -> NoReturn:
    """Leave the test out; where .ci/run has installed everything, fail it."""
    if "CI" in os.environ:
        pytest.fail(reason)
    pytest.skip(reason)


def cache() -> Path:
    """Where what is fetched or built stays for the next run."""
    directory = os.environ.get("KPROXY_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kproxy"
    return Path(directory).expanduser()


@functools.cache
def go_program(package: str) -> Path:
    """Build a command of tests/peers/go; the modules are those that go.sum has the hashes of."""
    built = cache() / "go" / package
    subprocess.run(["go", "build", "-mod=readonly", "-o", built, f"./{package}"], cwd=GO, check=True, timeout=600)
    return built


@functools.cache
def node_modules() -> Path:
    """What package.json asks for; the versions there are exact, and none of them has dependencies."""
    wanted = (JS / "package.json").read_bytes()
    installed = cache() / f"node-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if not (modules := installed / "node_modules").exists():
        installed.mkdir(parents=True, exist_ok=True)
        (installed / "package.json").write_bytes(wanted)
        install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--silent"]
        subprocess.run(install, cwd=installed, check=True, timeout=300)
    return modules
