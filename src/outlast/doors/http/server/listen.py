"""Listen addresses: validates them, loads TLS and binds the sockets.

Every machine that can reach an address can use it. So an address that is not loopback is refused unless the traffic is
encrypted (by this server, or by a proxy that the user names) and the user confirms it with a flag.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import stat
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from outlast.core.errors import ConfigError

DEFAULT_PORT = 8765
BACKLOG = 512


class ListenAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The listen options of the command line."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    unix: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    expose: bool = False
    behind_proxy: bool = False
    public_url: str | None = None

    @property
    def is_local(self) -> bool:
        return self.unix is not None or is_loopback(self.host)

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert is not None else "http"

    def url(self, port: int) -> str:
        """Return the URL for a browser. A wildcard address is replaced by the loopback address."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        return f"{self.scheme}://{spelled(self.reached)}:{port}"

    @property
    def reached(self) -> str:
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 only translated, not bound


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def spelled(host: str) -> str:
    """Return the host as written in a URL and in a Host header: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def check(wanted: ListenAddress) -> list[str]:
    """Return the warnings to show at each start. Raises ConfigError if the options are not allowed."""
    if (wanted.tls_cert is None) != (wanted.tls_key is None):
        raise ConfigError("TLS needs both --tls-cert and --tls-key")
    if wanted.behind_proxy and wanted.public_url is None:
        raise ConfigError("--behind-proxy needs --public-url, the https:// address that the proxy is reached by")
    if wanted.public_url is not None:
        _check_public_url(wanted.public_url)
    if wanted.is_local:
        return []
    if wanted.behind_proxy:
        past = f"clients that reach {wanted.host} past the proxy use no encryption"
        return [f"{past}; allow only the proxy in a firewall"]
    if wanted.tls_cert is None or not wanted.expose:
        raise ConfigError(
            f"{wanted.host} is reachable from other machines: give --tls-cert and --tls-key and say --expose, "
            "or put a proxy in front (--behind-proxy --public-url https://...), or leave --host out"
        )
    return [
        f"other machines can reach this server at {wanted.host}; anyone with the token can do everything that you can"
    ]


def _check_public_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_fits = urlsplit(""), False
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not (is_safe and port_fits and parts.netloc and "@" not in parts.netloc and parts.path in ("", "/")):
        raise ConfigError(f"--public-url '{url}' must be https://HOST or https://HOST:PORT, without a path")
    if parts.query or parts.fragment:
        raise ConfigError(f"--public-url '{url}' must be https://HOST or https://HOST:PORT, without a query")


def tls_context(wanted: ListenAddress) -> ssl.SSLContext | None:
    if wanted.tls_cert is None or wanted.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(wanted.tls_cert, wanted.tls_key, password=_no_password)
    except FileNotFoundError as error:
        missing = wanted.tls_key if wanted.tls_cert.exists() else wanted.tls_cert
        raise ConfigError(f"{missing}: there is no such file; --tls-cert and --tls-key are PEM files") from error
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(
            f"{wanted.tls_cert} and {wanted.tls_key} cannot be used ({_reason(error)}); "
            "give a certificate and its key as PEM files, the key without a password"
        ) from error
    return context


def _no_password() -> str:
    raise ValueError("the key needs a password")


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error).lower().replace("_", " ")


# --- sockets ---------------------------------------------------------------------------------------------------------


def listening(wanted: ListenAddress) -> socket.socket:
    """Return the bound and listening socket. Raises ConfigError, in one sentence, if it cannot be bound."""
    return _unix_socket(wanted.unix) if wanted.unix is not None else _tcp_socket(wanted)


def _tcp_socket(wanted: ListenAddress) -> socket.socket:
    host = "127.0.0.1" if wanted.host == "localhost" else wanted.host
    try:
        family = socket.getaddrinfo(host, wanted.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        bound = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"there is no address '{host}' on this machine; correct --host") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, wanted.port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise ConfigError(_why_not(error, host, wanted.port)) from error
    return bound


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno in {98, 48}:
        return f"port {port} of {host} is in use; choose another with --port, or stop what listens there"
    if error.errno in {1, 13}:
        return f"port {port} may not be used by this user; choose one above 1023 with --port"
    return f"{host} port {port} cannot be listened on ({error.strerror}); correct --host or --port"


def _unix_socket(path: Path) -> socket.socket:
    """Bind a Unix socket that only its owner may connect to: the umask is set before the socket exists."""
    path = path.expanduser().absolute()
    _remove_dead(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        bound.bind(str(path))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        told = error.strerror or str(error)
        raise ConfigError(f"{path} cannot be listened on ({told}); choose another --unix PATH") from error
    finally:
        os.umask(before)
    return bound


def _remove_dead(path: Path) -> None:
    """Remove the socket of a killed server. Raises ConfigError if a server still listens on it, or if the path is not a
    socket."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"{path} exists and is not a socket; choose another --unix PATH")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except OSError as error:
            raise ConfigError(f"{path} cannot be used ({error.strerror}); choose another --unix PATH") from error
        else:
            raise ConfigError(f"{path} is in use by another server; stop it, or choose another --unix PATH")
