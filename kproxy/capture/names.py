"""Finds DNS answers that report that a host name does not exist (RFC 1035)."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_ntop
from struct import Struct
from struct import error as StructError

from kproxy.capture.flows import NameNotFound
from kproxy.capture.links import ip_payload
from kproxy.capture.packet import Packet

_UDP, _DNS_PORT = 17, 53
_NAME_ERROR = 3  # NXDOMAIN
_HEAD = Struct("!HHxxxxxxHHxxxxxx")  # UDP: source and destination port; DNS: flags, number of questions
_MAX_LABELS = 127


def name_not_found(packet: Packet) -> NameNotFound | None:
    """Return the event if the packet is an answer over UDP that reports a nonexistent name, otherwise None."""
    payload = ip_payload(packet.link_type, packet.data, _UDP)
    if payload is None:
        return None
    destination, datagram = payload
    try:
        source_port, port, flags, questions = _HEAD.unpack_from(datagram)
        if source_port != _DNS_PORT or flags & 0x800F != 0x8000 | _NAME_ERROR or questions != 1:
            return None
        name = _question_name(datagram, _HEAD.size)
    except (IndexError, StructError):
        return None
    family = AF_INET if len(destination) == 4 else AF_INET6
    return NameNotFound(packet.at, (inet_ntop(family, destination), port), name) if name else None


def _question_name(datagram: bytes, position: int) -> str:
    """Return the name in the question, without the final dot."""
    labels: list[str] = []
    while (size := datagram[position]) and len(labels) < _MAX_LABELS:
        if size > 63:  # a compression pointer: the first name of a message has none
            return ""
        labels.append(datagram[position + 1 : position + 1 + size].decode("latin-1"))
        position += 1 + size
    return ".".join(labels)
