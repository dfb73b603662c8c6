"""Where clients of the built-in broker come: ``--listen`` and ``--advertised``, with the names of listeners."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.proxy.address import TcpAddress

_NAMED = re.compile(r"([A-Za-z][\w.-]*)://(.*)", re.ASCII | re.DOTALL)


def names(args: argparse.Namespace) -> list[str]:
    """The names of the listeners, in the order that they are given; none where they are not named."""
    return [name for name in _by_name("--listen", args.listen) if name]


def brokers_asked_for(args: argparse.Namespace) -> int:
    """The most addresses that are given for one listener: one for each broker."""
    return max(map(len, _by_name("--listen", args.listen).values()), default=1)


def addresses(args: argparse.Namespace, brokers: int) -> list[TcpAddress]:
    """Where the listeners are: the addresses of all brokers with the first listener, then those with the next."""
    found = _by_name("--listen", args.listen)
    return [each for texts in found.values() for each in _for_each_broker("--listen", texts, brokers)]


def advertised(
    args: argparse.Namespace, brokers: int
) -> Sequence[tuple[str, int]] | Mapping[str, Sequence[tuple[str, int]]]:
    """What clients are told instead of where the listeners are, by listener; of the only one without its name."""
    listeners = names(args)
    found = {}
    for name, texts in _by_name("--advertised", args.advertised or ()).items():
        if name and name not in listeners:
            has = f"only {', '.join(listeners)}" if listeners else "--listen names none"
            raise UserError(f"--advertised {name}://{texts[0]}: no listener is called {name}, {has}")
        if not name and len(listeners) > 1:
            raise UserError(f"--advertised {texts[0]}: name its listener, e.g. {listeners[0]}://{texts[0]}")
        found[name] = [_told(each) for each in _for_each_broker("--advertised", texts, brokers)]
    return found.get("", found)


def _by_name(option: str, texts: Sequence[str]) -> dict[str, list[str]]:
    """Addresses by the name in front of them, as in ``SSL://9093``; ``""`` where there is none."""
    found: dict[str, list[str]] = {}
    for text in texts:
        named = _NAMED.fullmatch(text)
        name, address = (named[1].upper(), named[2]) if named else ("", text)
        found.setdefault(name, []).append(address)
    if "" in found and len(found) > 1:
        bare = found[""][0]
        raise UserError(f"{option} {bare}: name this listener like the others, e.g. {option} PLAINTEXT://{bare}")
    return found


def _for_each_broker(option: str, texts: Sequence[str], brokers: int) -> list[TcpAddress]:
    """An address for each broker: those that are given, or one and the ports that follow it."""
    from kproxy.proxy.address import TcpAddress, parse_listen

    found = []
    for text in texts:
        try:
            address = parse_listen(text, option)
        except ValueError as error:
            raise UserError(str(error)) from None
        if not isinstance(address, TcpAddress):
            raise UserError(f"{option} {text}: the built-in broker needs a TCP port to advertise to clients")
        found.append(address)
    if len(found) not in (1, brokers):
        raise UserError(f"{option} is given {len(found)} times for {brokers} brokers: pass it once, or once per broker")
    first, more = found[0], brokers - len(found)
    if first.port and first.port + more > 65535:
        raise UserError(f"{option} {first}: there are not {brokers} ports from there to 65535")
    return found + [TcpAddress(first.host, first.port and first.port + each) for each in range(1, more + 1)]


def _told(address: TcpAddress) -> tuple[str, int]:
    if not address.port:
        raise UserError(f"--advertised {address}: clients need a port from 1 to 65535")
    return address.host or "localhost", address.port
