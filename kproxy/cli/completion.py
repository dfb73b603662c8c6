"""``kproxy completion``: prints a shell completion script made by shtab."""

from __future__ import annotations

import argparse
import re
import sys

from kproxy.cli import options
from kproxy.errors import CLEAN

HELP = "print a shell completion script (bash, zsh, fish)"

_EXAMPLES = """
examples:
  kproxy completion bash > ~/.local/share/bash-completion/completions/kproxy
  kproxy completion zsh > ~/.zfunc/_kproxy       # a directory in fpath, before compinit
  kproxy completion fish > ~/.config/fish/completions/kproxy.fish

It takes effect in the next shell. Regenerate it after you update kproxy.
"""

#: zsh and fish add no space after FIELD=; bash does unless it is told not to.
_NO_SPACE = """
_kproxy_complete() {
  _shtab_kproxy "$@"
  [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null || :
}
complete -o bashdefault -F _kproxy_complete kproxy
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to complete in")
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Print the script; return the exit status."""
    import shtab

    options.FILE.update(shtab.FILE)
    options.DIRECTORY.update(shtab.DIRECTORY)
    script = shtab.complete(args.root, shell=args.shell)
    if args.shell == "zsh":
        script = re.sub(r'"\(\*\)::?', '"*:', script)  # shtab completes only the first of several words
    elif args.shell == "bash":
        script += _NO_SPACE
    sys.stdout.write(script)
    return CLEAN
