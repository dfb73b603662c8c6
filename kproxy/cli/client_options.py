"""The options of commands that connect to a broker as a client: TLS, SASL, time limits."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli import options
from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.client.connection import ClientTls
    from kproxy.client.login import ClientLogin
    from kproxy.proxy.address import Address

_PASSWORD = "KPROXY_SASL_PASSWORD"  # noqa: S105
_NEED_TLS = ("ca", "cert", "key", "sni", "insecure")


#: The attributes of the parsed arguments that hold these options.
DESTINATIONS = ("timeout", "tls", *_NEED_TLS, "sasl_mechanism", "sasl_username", "sasl_password_file")


def configure(parser: options.OptionGroup) -> None:
    """Declare the options."""
    group = parser.add_argument_group("connection")

    def add_file_option(option: str, help_: str, metavar: str = "PEM") -> None:
        options.set_completion(group.add_argument(option, type=Path, metavar=metavar, help=help_), options.FILE)

    group.add_argument("--timeout", type=float, default=10.0, metavar="S",
                       help="give up after this many seconds without a response (default: %(default)g)")  # fmt: skip
    group.add_argument("--tls", action="store_true", help="connect with TLS")
    add_file_option("--ca", "the CAs that sign the broker's certificate (default: those of the system)")
    add_file_option("--cert", "a client certificate, for brokers that require one")
    add_file_option("--key", "the private key of --cert")
    group.add_argument("--sni", metavar="NAME", help="send this name, and expect it in the broker's certificate")
    group.add_argument("--insecure", action="store_true", help="accept any certificate")
    group.add_argument("--sasl-mechanism", metavar="NAME", type=str.upper,
                       help="log in with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")  # fmt: skip
    group.add_argument("--sasl-username", metavar="NAME", help="the user to log in as")
    add_file_option(
        "--sasl-password-file",
        f"a file with the password, or with the token for OAUTHBEARER (default: ${_PASSWORD})",
        "FILE",
    )


def address_of(text: str) -> Address:
    """Parse the broker's address.

    Raises:
        UserError: The text is not an address.
    """
    from kproxy.proxy.address import parse_upstream

    try:
        return parse_upstream(text, "the broker's address")
    except ValueError as error:
        raise UserError(str(error)) from None


def tls_of(args: argparse.Namespace) -> ClientTls | None:
    """Read the certificates and keys; return the TLS settings of the connection, or None without TLS.

    Raises:
        UserError: An option needs another one, or a file cannot be used.
    """
    from kproxy.client.connection import ClientTls
    from kproxy.proxy.tls.contexts import TlsFileError, client_context

    if not args.tls:
        option = next((name for name in _NEED_TLS if getattr(args, name)), None)
        if option:
            raise UserError(f"--{option} needs --tls")
        return None
    if (args.cert is None) != (args.key is None):
        raise UserError("--cert and --key must be used together")
    if args.insecure and args.ca is not None:
        raise UserError("--insecure accepts any certificate: do not pass --ca with it")
    try:
        context = client_context(args.ca, args.cert, args.key, verify=not args.insecure, prefix="--")
    except TlsFileError as error:
        raise UserError(str(error)) from None
    return ClientTls(context, args.sni)


def login_of(args: argparse.Namespace) -> ClientLogin | None:
    """Read the password; return the login, or None if no login was requested.

    Raises:
        UserError: The mechanism is unknown, or the user or the password is missing.
    """
    from kproxy.client.login import MECHANISMS, ClientLogin

    if args.sasl_mechanism is None:
        if args.sasl_username or args.sasl_password_file:
            raise UserError("--sasl-username and --sasl-password-file need --sasl-mechanism")
        return None
    if args.sasl_mechanism not in MECHANISMS:
        raise UserError(f"--sasl-mechanism {args.sasl_mechanism}: use one of {', '.join(MECHANISMS)}")
    if (args.sasl_username is None) != (args.sasl_mechanism == "OAUTHBEARER"):
        requirement = (
            "takes no --sasl-username: the token names the user" if args.sasl_username else "needs --sasl-username"
        )
        raise UserError(f"--sasl-mechanism {args.sasl_mechanism} {requirement}")
    password = os.environ.get(_PASSWORD)
    if args.sasl_password_file is not None:
        try:
            password = args.sasl_password_file.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not text"
            raise UserError(f"--sasl-password-file {args.sasl_password_file}: {reason}; choose another file") from None
    if not password:
        raise UserError(f"--sasl-mechanism needs a password: pass --sasl-password-file FILE, or set ${_PASSWORD}")
    return ClientLogin(args.sasl_mechanism, args.sasl_username or "", password)
