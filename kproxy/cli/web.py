"""`kproxy web`: shows the views of `kproxy tui` in a browser."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli import command_line, tui
from kproxy.errors import CLEAN, UserError

if TYPE_CHECKING:
    import socket

    from kproxy.browse.sources.child_proxy import ChildProxy
    from kproxy.web.access import AccessControl
    from kproxy.web.server import WebServer

HELP = "browse live traffic, a trace or a capture in a browser"

_EXAMPLES = """
examples:
  kproxy web capture.pcap
  kproxy web --listen 9092 --upstream broker:9092
  kproxy web 9092 --bind 8000                   attach to the proxy on port 9092
  ssh -tL 8092:localhost:8092 HOST kproxy web   attach to a proxy on another machine

Open the printed address. It contains an access token, which is new on every start. Each browser window is a separate
session (at most eight); a proxy started here is shared by all of them.
"""
_PORT = "8092"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    tui.configure(parser)
    parser.add_argument(
        "--bind", metavar="[HOST:]PORT", default=_PORT,
        help="serve on this address (default host: loopback; default port: %(default)s; 0: any free port)",
    )  # fmt: skip
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Serve until a signal stops it; return the exit status."""
    try:
        from kproxy.web.access import AccessControl
        from kproxy.web.server import WebServer
    except ImportError:
        from kproxy.io.extras import install_command

        raise UserError(f"kproxy web needs the textual-serve package: {install_command('web')}") from None
    from kproxy.outputs.stderr import say
    from kproxy.proxy.loop import run as run_loop

    with ExitStack() as opened:
        sockets, host = _bound(args.bind)
        for each in sockets:
            opened.enter_context(each)
        if (proxy := tui.start_child_proxy(args, on_message=say)) is not None:
            opened.callback(proxy.stop)
        port = sockets[0].getsockname()[1]
        access = AccessControl(host, port)
        server = WebServer(_session(args, proxy), _title(args, proxy), access)
        run_loop(_serve(server, sockets, _address(host, port, access)))
    return CLEAN


def _bound(text: str) -> tuple[list[socket.socket], str | None]:
    """The listening sockets, and the host as given."""
    from kproxy.proxy.address import TcpAddress, parse_listen
    from kproxy.proxy.sockets import listen

    try:
        address = parse_listen(text, "--bind")
        if not isinstance(address, TcpAddress):
            raise UserError(f"--bind {text}: browsers need a TCP port")
        return listen(address, "--bind"), address.host
    except ValueError as error:
        raise UserError(str(error)) from None


def _session(args: argparse.Namespace, proxy: ChildProxy | None) -> str:
    """The command line of a session.

    Raises:
        UserError: The session would fail.
    """
    if any(name == "-" or Path(name).is_fifo() for name in args.sources):
        raise UserError(
            "kproxy web cannot read a pipe, because each window reads the input again: save it to a file first"
        )
    sources = args.sources
    if proxy is None:
        source = tui.source_of(args, partial(tui.refuse_several, "web"))
        try:
            tui.app_of(args, source)
        finally:
            source.close()
    else:
        sources = [str(proxy.control)]
    own = command_line.options_of(args, tui.add_views)
    if proxy is None:
        own += command_line.options_of(args, tui.add_capture)
    return "exec " + shlex.join([sys.executable, "-m", "kproxy", "tui", *own, "--", *sources])


def _title(args: argparse.Namespace, proxy: ChildProxy | None) -> str:
    named = args.listen if proxy else args.sources
    return " ".join(["kproxy", *(Path(name).name for name in named[:3])])


def _address(host: str | None, port: int, access: AccessControl) -> str:
    import socket as sockets

    from kproxy.proxy.address import TcpAddress

    name = sockets.gethostname() if host in ("0.0.0.0", "::") else host or "127.0.0.1"  # noqa: S104
    return f"http://{TcpAddress(name, port)}/?token={access.token}"


async def _serve(server: WebServer, sockets: list[socket.socket], address: str) -> None:
    import ipaddress

    from kproxy.outputs.stderr import say, warn
    from kproxy.proxy.loop import stop_on_signals

    if not all(ipaddress.ip_address(each.getsockname()[0]).is_loopback for each in sockets):
        warn("other machines can reach this address, and the connection is not encrypted; ssh -L works without --bind")
    with stop_on_signals() as stop:
        say(f"open {address}")
        say("press Ctrl-C to stop")
        await server.serve_on(sockets, stop)
