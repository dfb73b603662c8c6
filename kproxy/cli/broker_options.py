"""The options of the built-in broker, which the root command has when ``--upstream`` has no value."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli import broker_listeners, options
from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.broker import BrokerOptions

#: What ``--upstream`` without a value stands for.
BUILT_IN = ""


def configure(parser: options.Group) -> None:
    """Declare the options."""
    group = parser.add_argument_group("built-in broker (--upstream without a value)")
    group.add_argument("--brokers", type=int, metavar="N", help="a cluster of N brokers, on the ports that follow")
    group.add_argument(
        "--advertised", action="append", metavar="HOST:PORT",
        help="tell clients this address instead of that of --listen, as Kafka's advertised.listeners; NAME://HOST:PORT "
        "for one of several listeners",
    )  # fmt: skip
    group.add_argument("--kafka", metavar="RELEASE", help="serve just what that release did, e.g. 2.8 (0.10 to 4.4)")
    group.add_argument("--topic", action="append", metavar="NAME[:PARTITIONS]", help="make a topic at the start")
    group.add_argument("--config", action="append", metavar="KEY=VALUE", help="a config of the brokers, as in Kafka")
    group.add_argument(
        "--quirk", action="append", metavar="QUIRK", help="do this wrong; kproxy quirks lists what there is"
    )
    options.completes(
        group.add_argument(
            "--data", type=Path, metavar="DIR", help="keep topics, offsets and groups in this directory"
        ),
        options.DIRECTORY,
    )
    group.add_argument("--fsync", action="store_true", help="answer acks=all when the disk has it (with --data)")
    group.add_argument(
        "--retention", type=options.size, metavar="SIZE",
        help="keep so much record data in sum, e.g. 200M (default: 1G); the oldest goes first",
    )  # fmt: skip
    group.add_argument(
        "--sasl", action="append", metavar="MECHANISM", help="clients log in: PLAIN, SCRAM-SHA-256, OAUTHBEARER, ..."
    )
    group.add_argument("--user", action="append", metavar="NAME:PASSWORD", help="who may log in; for tests only")
    group.add_argument("--acls", action="store_true", help="enforce ACLs; without one nobody may do anything")
    group.add_argument("--super-user", action="append", metavar="PRINCIPAL", help="who may do all, e.g. User:admin")
    options.completes(
        group.add_argument("--tls-cert", type=Path, metavar="PEM", help="speak TLS, with this certificate"),
        options.FILE,
    )
    options.completes(
        group.add_argument("--tls-key", type=Path, metavar="PEM", help="the key of that certificate"), options.FILE
    )


def options_of(args: argparse.Namespace) -> BrokerOptions | None:
    """The broker that is asked for; None if none is.

    Raises:
        UserError: Options that do not fit, or that no broker has asked for.
    """
    from kproxy.broker.options import RETENTION_BYTES, BrokerOptions
    from kproxy.broker.security.listener import listeners_of

    given = {name: value for name in _NAMES if (value := getattr(args, name)) not in (None, False)}
    if not any(upstream == BUILT_IN for upstream in args.upstream):
        if given:
            flag = next(iter(given)).replace("_", "-")
            raise UserError(f"--{flag} is of the built-in broker: give --upstream without a value")
        return None
    if len(args.upstream) > 1:
        raise UserError("the built-in broker is the only upstream: give --upstream once, without a value")
    if not args.listen:
        raise UserError("give --listen PORT: where clients of the built-in broker come")
    brokers = broker_listeners.brokers_asked_for(args) if args.brokers is None else args.brokers
    if not 1 <= brokers <= _MOST_BROKERS:
        raise UserError(f"--brokers takes 1 to {_MOST_BROKERS}")
    broker_listeners.addresses(args, brokers)
    _check(args)
    options = BrokerOptions(
        brokers=brokers,
        listeners=broker_listeners.names(args),
        advertised=broker_listeners.advertised(args, brokers),
        release=args.kafka,
        data=args.data,
        fsync=args.fsync,
        retention_bytes=args.retention or RETENTION_BYTES,
        quirks=tuple(args.quirk or ()),
        sasl=tuple(args.sasl or ()),
        users=dict(_user(each) for each in args.user or ()),
        acls=args.acls,
        super_users=tuple(args.super_user or ()),
        tls_certificate=args.tls_cert,
        tls_key=args.tls_key,
        topics=dict(_topic(each) for each in args.topic or ()),
        configs=dict(_config(each) for each in args.config or ()),
    )
    try:
        listeners_of(options)
    except ValueError as error:
        raise UserError(f"--listen: {error}") from None
    return options


_NAMES = (
    "brokers", "advertised", "kafka", "topic", "config", "quirk", "data", "fsync", "retention", "sasl", "user", "acls",
    "super_user", "tls_cert", "tls_key",
)  # fmt: skip
_MOST_BROKERS = 16
#: Configs that are options of their own here.
_FLAGS = {"listeners": "--listen NAME://[HOST:]PORT", "advertised.listeners": "--advertised NAME://HOST:PORT"}


def _check(args: argparse.Namespace) -> None:
    from dissectors.schemas.lines import line
    from kproxy.broker.quirks import parse

    try:
        for each in args.quirk or ():
            parse(each)
        if args.kafka is not None:
            line(args.kafka)
    except ValueError as error:
        raise UserError(str(error)) from None
    if args.fsync and not args.data:
        raise UserError("--fsync needs --data DIR: in memory there is nothing to sync")
    if args.data and args.data.exists() and not args.data.is_dir():
        raise UserError(f"--data {args.data}: that is a file; give a directory")
    if (args.tls_cert is None) != (args.tls_key is None):
        raise UserError("--tls-cert and --tls-key go together")
    if args.user and not args.sasl:
        raise UserError("--user needs --sasl MECHANISM: without it nobody logs in")
    for each in args.super_user or ():
        if not each.startswith("User:"):
            raise UserError(f"--super-user {each!r}: write User:NAME")


def _user(text: str) -> tuple[str, str]:
    name, separator, password = text.partition(":")
    if not separator or not name or not password:
        raise UserError("--user: write NAME:PASSWORD")
    return name, password


def _topic(text: str) -> tuple[str, int]:
    from kproxy.broker.errors import Refused
    from kproxy.broker.topics import check_name

    name, separator, partitions = text.rpartition(":")
    if not separator:
        name, partitions = text, "1"
    if not partitions.isdecimal() or not 1 <= int(partitions) <= 10_000:
        raise UserError(f"--topic {text!r}: write NAME or NAME:PARTITIONS, with 1 to 10000 partitions")
    try:
        check_name(name)
    except Refused as refused:
        raise UserError(f"--topic {text!r}: {refused}; use letters, digits, '.', '_' and '-'") from None
    return name, int(partitions)


def _config(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UserError(f"--config {text!r}: write KEY=VALUE, e.g. auto.create.topics.enable=false")
    if key in _FLAGS:
        raise UserError(f"--config {key}: use {_FLAGS[key]} instead, which the proxy in front of the broker follows")
    return key, value
