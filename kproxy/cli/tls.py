"""The options for TLS on both sides of the relay."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli import options
from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.proxy.tls.contexts import TlsPolicy

_UPSTREAM = ("upstream_ca", "upstream_cert", "upstream_key", "upstream_sni", "upstream_insecure")

#: The attributes of the parsed arguments that hold these options.
DESTINATIONS = ("tls_cert", "tls_key", "tls_client_ca", "upstream_tls", *_UPSTREAM, "tls_key_log")


def configure(parser: options.OptionGroup) -> None:
    """Declare the options."""
    group = parser.add_argument_group("TLS")

    def add_file_option(option: str, help_: str, metavar: str = "PEM") -> None:
        options.set_completion(group.add_argument(option, type=Path, metavar=metavar, help=help_), options.FILE)

    add_file_option(
        "--tls-cert", "accept clients with TLS, with this certificate and its chain; kproxy ca create makes one"
    )
    add_file_option("--tls-key", "the private key of --tls-cert")
    add_file_option("--tls-client-ca", "require clients to have a certificate signed by one of these CAs (mutual TLS)")
    group.add_argument("--upstream-tls", action="store_true", help="connect to upstreams with TLS")
    add_file_option("--upstream-ca", "the CAs that sign the upstreams' certificates (default: those of the system)")
    add_file_option("--upstream-cert", "the client certificate for upstreams that require one")
    add_file_option("--upstream-key", "the private key of --upstream-cert")
    group.add_argument(
        "--upstream-sni", metavar="NAME",
        help="send this name to upstreams, and expect it in their certificates (default: each upstream's host name)",
    )  # fmt: skip
    group.add_argument("--upstream-insecure", action="store_true", help="accept any certificate of an upstream")
    add_file_option("--tls-key-log",
                    "append the secrets of TLS connections to this file, for Wireshark and dissect --keylog",
                    "FILE")  # fmt: skip


def check_for_broker(args: argparse.Namespace, upstream: str = "the built-in broker") -> None:
    """Reject options for connections to upstreams, because kproxy connects to this upstream within the process.

    Raises:
        UserError: Such an option was given.
    """
    for name in ("upstream_tls", *_UPSTREAM):
        if getattr(args, name):
            raise UserError(f"{_option_name(name)} cannot be used with {upstream}: pass --upstream HOST:PORT")


def tls_policy(args: argparse.Namespace) -> TlsPolicy:
    """Read the certificates and keys; return the TLS policy of listeners in front of an upstream.

    Raises:
        UserError: An option needs another one, or a file cannot be used.
    """
    from kproxy.proxy.tls.contexts import TlsFileError, TlsPolicy, client_context, log_keys, server_context

    if (args.tls_cert is None) != (args.tls_key is None):
        raise UserError("--tls-cert and --tls-key must be used together")
    if (args.upstream_cert is None) != (args.upstream_key is None):
        raise UserError("--upstream-cert and --upstream-key must be used together")
    if args.tls_client_ca is not None and args.tls_cert is None:
        raise UserError("--tls-client-ca needs --tls-cert and --tls-key")
    if not args.upstream_tls:
        for name in _UPSTREAM:
            if getattr(args, name):
                raise UserError(f"{_option_name(name)} needs --upstream-tls")
    if args.upstream_insecure and args.upstream_ca is not None:
        raise UserError("--upstream-insecure accepts any certificate: do not pass --upstream-ca with it")
    if args.tls_key_log is not None and args.tls_cert is None and not args.upstream_tls:
        raise UserError("--tls-key-log needs TLS: pass --tls-cert and --tls-key, or --upstream-tls")
    client = upstream = None
    try:
        if args.tls_cert is not None:
            client = server_context(args.tls_cert, args.tls_key, args.tls_client_ca)
        if args.upstream_tls:
            upstream = client_context(
                args.upstream_ca, args.upstream_cert, args.upstream_key, verify=not args.upstream_insecure
            )
        if args.tls_key_log is not None:
            log_keys([context for context in (client, upstream) if context is not None], args.tls_key_log)
    except TlsFileError as error:
        raise UserError(str(error)) from None
    if args.upstream_insecure:
        from kproxy.outputs.stderr import warn

        warn("--upstream-insecure: certificates of upstreams are not verified; anyone on the way can read the traffic")
    return TlsPolicy(client, upstream, args.upstream_sni)


def _option_name(name: str) -> str:
    return "--" + name.replace("_", "-")
