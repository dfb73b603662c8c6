"""The command that installs an extra of kproxy, for error messages."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from typing import Final

#: The name of the distribution; on the package index, `kproxy` is another project.
DISTRIBUTION: Final = "kafka-kproxy"


def install_command(extra: str) -> str:
    """Return a shell command that installs the packages of an extra (``tls``, ``web``, ``spark``) for this Python.

    It names the packages rather than kproxy, so it works equally for a checkout, a wheel, and a tool environment.
    """
    from importlib import metadata  # imported here because it loads 20 modules, and only an error message needs it

    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from a source tree or a zip file
        return f"pip install '.[{extra}]' in a checkout of kproxy"
    marker = f'extra == "{extra}"'
    packages = [
        requirement.partition(";")[0].strip()
        for requirement in requirements
        if requirement.partition(";")[2].strip().replace("'", '"') == marker
    ]
    installer = [sys.executable, "-m", "pip", "install"]
    if importlib.util.find_spec("pip") is None:  # environments made by uv have no pip
        installer = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*installer, *packages])
