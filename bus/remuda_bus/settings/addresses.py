"""Addresses on which services listen."""

from __future__ import annotations

import ipaddress
import socket


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def shown_host(host: str) -> str:
    """What clients may use in the place of `host`: the name of this machine if the service listens on all addresses."""
    try:
        everywhere = ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return host
    return socket.gethostname() if everywhere else host
