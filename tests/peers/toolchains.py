"""Programs in other languages, built once per test run, outside the checkout."""

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
    """Return the reason why a toolchain is unavailable, or None."""
    programs = [tool for tool in tools if shutil.which(tool) is None]
    return f"needs {' and '.join(programs)} on PATH" if programs else None


def skip(reason: str) -> NoReturn:
    """Skip the test; fail it if .ci/run has installed everything."""
    if "CI" in os.environ:
        pytest.fail(reason)
    pytest.skip(reason)


def cache() -> Path:
    """Return the directory for fetched and built files, which are kept for later runs."""
    directory = os.environ.get("KPROXY_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kproxy"
    return Path(directory).expanduser()


@functools.cache
def go_program(package: str) -> Path:
    """Build a command of tests/peers/go with the modules pinned in go.sum; return its path."""
    program = cache() / "go" / package
    subprocess.run(["go", "build", "-mod=readonly", "-o", program, f"./{package}"], cwd=GO, check=True, timeout=600)
    return program


@functools.cache
def node_modules() -> Path:
    """Install the packages of package.json, which have exact versions and no dependencies; return their directory."""
    package_json = (JS / "package.json").read_bytes()
    project = cache() / f"node-{hashlib.sha256(package_json).hexdigest()[:12]}"
    if not (modules := project / "node_modules").exists():
        project.mkdir(parents=True, exist_ok=True)
        (project / "package.json").write_bytes(package_json)
        install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--silent"]
        subprocess.run(install, cwd=project, check=True, timeout=300)
    return modules
