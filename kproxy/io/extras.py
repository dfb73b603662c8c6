"""The command that installs what an extra of kproxy needs, for error messages."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from typing import Final

#: kproxy's name on the package index, where `kproxy` is somebody else's package.
DISTRIBUTION: Final = "kafka-kproxy"


def install_command(extra: str) -> str:
    """A shell command that installs the packages of an extra (``tls``, ``web``, ``spark``) for this Python.

    It names those packages and not kproxy, so it works for a checkout, a wheel, and a tool environment alike.
    """
    from importlib import metadata  # not at the top: it imports 20 modules, for an error message only

    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from a source tree or a zip file
        return f"pip install '.[{extra}]' in a checkout of kproxy"
    marker = f'extra == "{extra}"'
    wanted = [
        requirement.partition(";")[0].strip()
        for requirement in requirements
        if requirement.partition(";")[2].strip().replace("'", '"') == marker
    ]
    installer = [sys.executable, "-m", "pip", "install"]
    if importlib.util.find_spec("pip") is None:  # in an environment that uv made
        installer = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*installer, *wanted])
