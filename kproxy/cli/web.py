"""`kproxy web`: shows a running proxy, a trace or a capture in a browser."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from kproxy.cli import tui
from kproxy.errors import CLEAN, UserError

if TYPE_CHECKING:
    import socket

    from kproxy.web.access import AccessControl
    from kproxy.web.server import WebServer

HELP = "browse live traffic, a trace or a capture in a browser"

_EXAMPLES = """
examples:
  kproxy web capture.pcap
  kproxy web --listen 9092 --upstream broker:9092
  kproxy web --listen 9092 --upstream --topic orders:6
  kproxy web kproxy-trace                       a directory of traces; follows those still being written
  tcpdump -i lo -w - port 9092 | kproxy web -
  kproxy web 9092 --bind 8000                   attach to the proxy on port 9092
  ssh -tL 8092:localhost:8092 HOST kproxy web   attach to a proxy on another machine

Open the printed address. It contains an access token, which is new on every start. All windows show the same session,
each with its own view and filter, which are in its address.
"""
_PORT = "8092"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    tui.add_source_argument(parser)
    tui.add_row_options(parser)
    tui.add_capture_options(parser)
    tui.add_proxy_options(parser)
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

        raise UserError(f"kproxy web needs the aiohttp package: {install_command('web')}") from None
    from kproxy.browse.session import BrowseSession
    from kproxy.outputs.line_outputs import filter_for
    from kproxy.outputs.stderr import print_message
    from kproxy.proxy.loop import run as run_loop

    filter_for(args.filter)
    with ExitStack() as stack:
        sockets, host = _listen(args.bind)
        for listening_socket in sockets:
            stack.enter_context(listening_socket)
        source = tui.open_source(args, partial(tui.refuse_ambiguous, "web"), reads_keys=False, on_message=print_message)
        stack.callback(source.close)
        port = sockets[0].getsockname()[1]
        access = AccessControl(host, port)
        server = WebServer(BrowseSession(source), access, args.filter or "")
        run_loop(_serve(server, sockets, _page_url(host, port, access)))
    return CLEAN


def _listen(text: str) -> tuple[list[socket.socket], str | None]:
    """Return the listening sockets, and the host as given."""
    from kproxy.proxy.address import TcpAddress, parse_listen
    from kproxy.proxy.sockets import listen

    try:
        address = parse_listen(text, "--bind")
        if not isinstance(address, TcpAddress):
            raise UserError(f"--bind {text}: browsers need a TCP port")
        return listen(address, "--bind"), address.host
    except ValueError as error:
        raise UserError(str(error)) from None


def _page_url(host: str | None, port: int, access: AccessControl) -> str:
    import socket as sockets

    from kproxy.proxy.address import TcpAddress

    name = sockets.gethostname() if host in ("0.0.0.0", "::") else host or "127.0.0.1"  # noqa: S104
    return f"http://{TcpAddress(name, port)}/?token={access.token}"


async def _serve(server: WebServer, sockets: list[socket.socket], url: str) -> None:
    import ipaddress

    from kproxy.outputs.stderr import print_message, warn
    from kproxy.proxy.loop import stop_on_signals

    if not all(ipaddress.ip_address(sock.getsockname()[0]).is_loopback for sock in sockets):
        warn("other machines can reach this address, and the connection is not encrypted; ssh -L works without --bind")
    with stop_on_signals() as stop:
        print_message(f"open {url}")
        print_message("press Ctrl-C to stop")
        await server.serve_on(sockets, stop)
