"""How a client reaches its verifier: address, TLS, token. Used by Client and AsyncClient."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import re
from dataclasses import dataclass
from typing import Union

import grpc

from outrider._version import __version__

DEFAULT_VERIFIER = "127.0.0.1:7300"

_MAX_MESSAGE_BYTES = 16 << 20
# Mostly as the command-line client sets them (common/rpc/channel.cc).
_CHANNEL_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 20000),
    ("grpc.keepalive_timeout_ms", 10000),
    ("grpc.http2.ping_timeout_ms", 10000),  # what later versions of gRPC wait for instead
    # Otherwise a call that waits in silence checks twice whether the verifier is alive, and then
    # no more.
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # how long an attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.primary_user_agent", f"outrider-python/{__version__}"),
]
_MAX_TOKEN_FILE_BYTES = 1 << 20

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Tls:
    """Encrypts the connection. All files are PEM; they are read when the client is made.

    `cert` and `key` are this client's own, for mutual TLS. `server_name` is the name that the
    server's certificate must have, if it is not the address's host.
    """

    ca: Path
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("Tls: cert and key belong together; give both or neither")

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(root_certificates=_read(self.ca),
                                            private_key=_read(self.key),
                                            certificate_chain=_read(self.cert))


class Connection:
    """Checked settings of a client. Raises ValueError for what cannot work, OSError for files."""

    def __init__(self, verifier: str, token: str | None, token_file: Path | None, tls: Tls | None,
                 allow_plaintext: bool) -> None:
        if token is not None and token_file is not None:
            raise ValueError("token and token_file are both given; give one of them")
        if tls is None and not allow_plaintext and not is_loopback(verifier):
            raise ValueError(f"{verifier} is beyond this machine and would be plaintext: give tls, "
                             "or accept it with allow_plaintext=True")
        self.verifier = verifier
        self._token = None if token is None else _check_token(token, "token")
        self._token_file = None if token_file is None else pathlib.Path(token_file)
        self.options = list(_CHANNEL_OPTIONS)
        self.credentials = None if tls is None else tls.credentials()
        if tls is not None and tls.server_name is not None:
            self.options.append(("grpc.ssl_target_name_override", tls.server_name))
        self.metadata()

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Headers of the next call. The token file is read again, so that a new token is used."""
        token = self._token
        if self._token_file is not None:
            token = read_token(self._token_file)
        return () if token is None else (("authorization", f"Bearer {token}"),)


def read_token(path: pathlib.Path) -> str:
    """The first token of a file: lines are `token` or `name token`; # begins a comment line."""
    if path.stat().st_size > _MAX_TOKEN_FILE_BYTES:
        raise ValueError(f"{path}: a token file has at most {_MAX_TOKEN_FILE_BYTES} bytes")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2:
            raise ValueError(f"{path}, line {number}: expected `token` or `name token`")
        return _check_token(words[-1], f"{path}, line {number}")
    raise ValueError(f"{path} holds no token")


def is_loopback(address: str) -> bool:
    """Whether a gRPC address can only reach this machine. Unknown names are other machines."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    scheme = re.match(r"(dns|ipv4|ipv6):(///)?", address)
    listed = address[scheme.end():] if scheme else address
    return all(_is_loopback_host(_host_of(part)) for part in listed.split(","))


def _host_of(address: str) -> str:
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address


def _is_loopback_host(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


def _check_token(token: str, where: str) -> str:
    """Other characters do not survive in an HTTP header. The token itself is in no message."""
    if not re.fullmatch(r"[!-~]+", token):
        raise ValueError(f"{where}: a token must be visible ASCII, and not empty")
    return token


def _read(path: Path | None) -> bytes | None:
    return None if path is None else pathlib.Path(path).read_bytes()
