"""The listeners configured by the command line, and by its configuration file after a change."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kproxy.cli import broker_listeners, broker_options, tls
from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.broker import BrokerOptions
    from kproxy.proxy.address import Address
    from kproxy.proxy.listener import Listener

#: Host names that mean the same as a port alone.
_LOOPBACK = (None, "localhost", "127.0.0.1")

#: The options that a reload can change in a running proxy; nodes of the built-in broker keep their addresses.
_RELOADED = frozenset({"listen", "upstream", *tls.DESTINATIONS})
_RELOADED_BUILT_IN = frozenset(tls.DESTINATIONS)


def reload(old_args: argparse.Namespace, broker: BrokerOptions | None) -> list[Listener] | None:
    """Reread the configuration file; return the resulting listeners, or None after reporting an error."""
    from kproxy.outputs.stderr import warn

    try:
        new_args = old_args.parse_again()
        listeners = _reloaded_listeners(old_args, new_args, broker)
    except UserError as error:
        warn(str(error))
        return None
    except SystemExit:  # argparse has printed the reason
        return None
    reloaded_options = _RELOADED if broker is None else _RELOADED_BUILT_IN
    changed_options = [f"--{name.replace('_', '-')}" for name, value in vars(new_args).items()
              if name not in reloaded_options and not callable(value) and value != getattr(old_args, name,
                                                                                           None)]  # fmt: skip
    if changed_options:
        warn(f"restart kproxy to change {', '.join(sorted(changed_options))}")
    return listeners


def _reloaded_listeners(
    old_args: argparse.Namespace, new_args: argparse.Namespace, broker: BrokerOptions | None
) -> list[Listener]:
    """Return the listeners as configured now. Those of the built-in broker only get the current TLS files."""
    if broker is not None:
        if (new_args.tls_cert is None) != (old_args.tls_cert is None):
            raise UserError("restart kproxy to add or remove --tls-cert")
        tls.check_for_broker(new_args)
        return built_in_listeners(old_args, broker, new_args)
    if (
        len(new_args.listen) != len(new_args.upstream)
        or not new_args.listen
        or broker_options.BUILT_IN in new_args.upstream
    ):
        raise UserError("each --listen needs one --upstream")
    return upstream_listeners(new_args)


def upstream_listeners(args: argparse.Namespace) -> list[Listener]:
    """Return the configured listeners, each with its upstream.

    Raises:
        UserError: An address is invalid, or a TLS file cannot be used.
    """
    from kproxy.proxy.address import parse_listen, parse_upstream
    from kproxy.proxy.listener import Listener

    policy = tls.tls_policy(args)
    try:
        listeners = [
            Listener(parse_listen(listen), parse_upstream(upstream), policy)
            for listen, upstream in zip(args.listen, args.upstream, strict=True)
        ]
    except ValueError as error:
        raise UserError(str(error)) from None
    _check_distinct([listener.listen for listener in listeners])
    return listeners


def _check_distinct(addresses: Sequence[Address]) -> None:
    """Refuse an address that is listened on twice; port 0 is a different port each time."""
    from kproxy.proxy.address import TcpAddress

    seen_addresses = set()
    for address in addresses:
        key: object = address
        if isinstance(address, TcpAddress):
            key = None if address.port == 0 else (None if address.host in _LOOPBACK else address.host, address.port)
        if key is not None and key in seen_addresses:
            raise UserError(f"--listen {address} is given twice: give each listener an address of its own")
        seen_addresses.add(key)


def built_in_listeners(
    args: argparse.Namespace, broker: BrokerOptions, tls_args: argparse.Namespace | None = None
) -> list[Listener]:
    """Return the listeners in front of the built-in broker: its first listener on all nodes, then the next one.

    `tls_args` names the TLS files; by default, `args` does.
    """
    from kproxy.broker.security.listener import listeners_of
    from kproxy.proxy.listener import Listener
    from kproxy.proxy.tls.contexts import PLAINTEXT

    policy = tls.tls_policy(tls_args or args)
    policies = [
        policy if listener.tls else PLAINTEXT for listener in listeners_of(broker) for _ in range(broker.brokers)
    ]
    addresses = broker_listeners.listen_addresses(args, broker.brokers)
    _check_distinct(addresses)
    return [Listener(address, address, policy) for address, policy in zip(addresses, policies, strict=True)]


def replay_listeners(args: argparse.Namespace) -> list[Listener]:
    """Return the listeners for `--replay`, which have no upstream.

    Raises:
        UserError: An address is invalid or not a TCP address, or a TLS file cannot be used.
    """
    from kproxy.proxy.address import TcpAddress, parse_listen
    from kproxy.proxy.listener import Listener

    tls.check_for_broker(args, "--replay")
    policy = tls.tls_policy(args)
    try:
        addresses = [parse_listen(text) for text in args.listen]
    except ValueError as error:
        raise UserError(str(error)) from None
    for text, address in zip(args.listen, addresses, strict=True):
        if not isinstance(address, TcpAddress):
            raise UserError(f"--listen {text}: --replay needs a TCP port to advertise to clients")
    _check_distinct(addresses)
    return [Listener(address, address, policy) for address in addresses]
