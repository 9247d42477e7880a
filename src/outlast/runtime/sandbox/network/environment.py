"""The variables by which programs in a sandbox find the network proxy. Programs that ignore them have no network.

What is deliberately not set: `ALL_PROXY` with `socks5h`, since httpx then fails to start without an extra package
(HTTP CONNECT carries the same bytes; `socks_url` is there for callers who want it); `PIP_PROXY`, since pip then ignores
NO_PROXY and no longer reaches an index on the sandbox's own loopback; `JAVA_TOOL_OPTIONS`, since every JVM prints it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

SSH_CONNECT = Path(__file__).with_name("ssh_connect.py")
NOT_PROXIED = "localhost,127.0.0.1,::1"
"""The loopback network of the session itself, where its development servers listen."""


def proxy_url(port: int, token: str) -> str:
    return f"http://{token}:x@127.0.0.1:{port}"


def socks_url(port: int, token: str) -> str:
    return f"socks5h://{token}:x@127.0.0.1:{port}"


def proxy_environment(port: int, token: str, *, python: str = sys.executable) -> dict[str, str]:
    """Return the variables for one command: the port of the session's relay, and the token of the command."""
    url = proxy_url(port, token)
    variables = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), url) | {"NO_PROXY": NOT_PROXIED}
    variables |= {name.lower(): value for name, value in variables.items()}
    return variables | {
        "GIT_SSH_COMMAND": ssh_command(port, token, python),
        "GIT_HTTP_PROXY_AUTHMETHOD": "basic",  # spares git a request that is answered with 407
        "npm_config_proxy": url,
        "npm_config_https_proxy": url,
        "npm_config_noproxy": NOT_PROXIED,
        "YARN_HTTP_PROXY": url,
        "YARN_HTTPS_PROXY": url,
        "NODE_USE_ENV_PROXY": "1",
        "CARGO_HTTP_PROXY": url,
    }


def ssh_command(port: int, token: str, python: str = sys.executable) -> str:
    """Return an ssh that connects through the proxy and never prompts: a command has no terminal."""
    words = [python, "-I", "-S", str(SSH_CONNECT), str(port), token]
    connect = " ".join(shlex.quote(word.replace("%", "%%")) for word in words) + " %h %p"
    return f"ssh -o BatchMode=yes -o {shlex.quote(f'ProxyCommand={connect}')}"
