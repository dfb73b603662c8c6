"""``kproxy ca``: a development CA for the TLS of listeners."""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path

from kproxy.cli import options
from kproxy.errors import CLEAN, UserError
from kproxy.escaping import shell_word, terminal

HELP = "make a development CA and a certificate for --tls-cert"

_EXAMPLES = """
examples:
  kproxy ca create
  kproxy ca create my-ca --host localhost --host '*.kafka.example.com'
  kproxy --listen 9093 --tls-cert my-ca/cert.pem --tls-key my-ca/key.pem --upstream broker:9092 --advertise
  kproxy ca export my-ca

The CA is for development and tests: whoever reads ca-key.pem can impersonate any server to clients that trust it.
Existing files are never overwritten. kproxy ca create needs the extra kafka-kproxy[tls].
"""
_DIRECTORY = "kproxy-ca"
_DAYS = 397


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a CA and a certificate for host names")
    _add_directory_argument(create)
    create.add_argument(
        "--host", action="append", metavar="NAME",
        help="a host name, wildcard or IP address for the certificate; repeat for several (default: localhost, "
        "127.0.0.1, ::1 and the name of this machine)",
    )  # fmt: skip
    create.add_argument("--days", type=int, default=_DAYS, help="how long both are valid (default: %(default)s)")
    export = actions.add_parser("export", help="print the CA certificate, with instructions for clients")
    _add_directory_argument(export)
    options.set_completion(
        export.add_argument("--output", type=Path, metavar="FILE", help="save the certificate to this new file"),
        options.FILE,
    )
    parser.epilog = _EXAMPLES


def _add_directory_argument(parser: argparse.ArgumentParser) -> None:
    options.set_completion(
        parser.add_argument(
            "directory",
            nargs="?",
            type=Path,
            default=Path(_DIRECTORY),
            metavar="DIR",
            help="where the files of the CA are (default: %(default)s)",
        ),
        options.DIRECTORY,
    )


def run(args: argparse.Namespace) -> int:
    """Make or export a CA; return the exit status."""
    return _create(args) if args.action == "create" else _export(args)


def _create(args: argparse.Namespace) -> int:
    from kproxy.development_ca import store
    from kproxy.io.extras import install_command

    try:
        from kproxy.development_ca import certificates
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "cryptography":
            raise
        raise UserError(f"kproxy ca create needs the cryptography package: {install_command('tls')}") from None
    if not 1 <= args.days <= 36500:
        raise UserError(f"invalid --days {args.days}: use 1 to 36500")
    hosts = list(dict.fromkeys(args.host or ["localhost", "127.0.0.1", "::1", socket.gethostname()]))
    try:
        store.save(args.directory, certificates.create(hosts, args.days))
    except ValueError as error:
        raise UserError(f"--host: {error}") from None
    except FileExistsError as error:
        raise UserError(f"{error.filename or args.directory} exists: choose another directory, or remove it") from None
    except OSError as error:
        raise UserError(f"{error.filename or args.directory}: {error.strerror}; choose another directory") from None
    certificate, key = args.directory / store.CERTIFICATE, args.directory / store.KEY
    print(f"wrote a CA and a certificate for {terminal(', '.join(hosts))}, valid for {args.days} days")  # noqa: T201
    print(f"use it:   kproxy --tls-cert {shell_word(str(certificate))} --tls-key {shell_word(str(key))} ...")  # noqa: T201
    print(f"trust it: kproxy ca export {shell_word(str(args.directory))}")  # noqa: T201
    return CLEAN


def _export(args: argparse.Namespace) -> int:
    from kproxy.development_ca import store
    from kproxy.development_ca.trust import instructions

    source: Path = args.directory / store.CA
    try:
        content = source.read_bytes()
    except OSError as error:
        command = f"kproxy ca create {shell_word(str(args.directory))}"
        raise UserError(f"{source}: {error.strerror}; make a CA with {command}") from None
    if args.output is None:
        print(content.decode(errors="replace"), end="")  # noqa: T201
        sys.stdout.flush()
        sys.stderr.write("\n" + instructions(str(source.absolute())))
        return CLEAN
    try:
        store.write_new(args.output, content, 0o644)
    except FileExistsError:
        raise UserError(f"--output {args.output} exists: choose another file, or remove it") from None
    except OSError as error:
        raise UserError(f"--output {args.output}: {error.strerror}; choose another file") from None
    print(instructions(str(args.output.absolute())), end="")  # noqa: T201
    return CLEAN
