"""Hosts of the arena, served on one loopback address by name: a git server, an API, package indexes, downloads."""

import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.sandbox.friction.everyday import REMOTES

ADDRESS = "127.10.0.1"
"""The one loopback address that the proxy of a test takes for a public one."""
PORT = 80
NAMES = ("git", "api", "packages", "registry", "modules", "crates", "files")
HOSTS = tuple(f"{name}.example.org" for name in NAMES)

MADE = 1_700_000_000
Answer = tuple[int, str, bytes]
MISSING: Answer = (404, "text/plain", b"not found\n")


def _zipped(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), text)
    return stream.getvalue()


def _tarred(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, text in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(text)
            header.mode, header.mtime = 0o644, MADE
            archive.addfile(header, io.BytesIO(text.encode()))
    return gzip.compress(stream.getvalue(), mtime=0)


WHEEL = "tinytext-1.0-py3-none-any.whl"
SDIST = "tinysource-1.0.tar.gz"
BUILD_BACKEND = """import os, zipfile


def build_wheel(folder, settings=None, metadata=None):
    name = "tinysource-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.write("tinysource.py")
        facts = "tinysource-1.0.dist-info/"
        wheel.writestr(facts + "METADATA", "Metadata-Version: 2.1\\nName: tinysource\\nVersion: 1.0\\n")
        wheel.writestr(facts + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(facts + "RECORD", "")
    return name
"""
PACKAGES = {
    WHEEL: _zipped(
        {
            "tinytext.py": "def upper(text):\n    return text.upper()\n",
            "tinytext-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinytext\nVersion: 1.0\n",
            "tinytext-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "tinytext-1.0.dist-info/RECORD": "tinytext.py,,\n",
        }
    ),
    SDIST: _tarred(
        {
            "tinysource-1.0/PKG-INFO": "Metadata-Version: 2.1\nName: tinysource\nVersion: 1.0\n",
            "tinysource-1.0/pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
            'backend-path = ["."]\n[project]\nname = "tinysource"\nversion = "1.0"\n',
            "tinysource-1.0/backend.py": BUILD_BACKEND,
            "tinysource-1.0/tinysource.py": "ANSWER = 42\n",
        }
    ),
}
MODULE = {"package/package.json": '{"name": "tinysum", "version": "1.0.0", "main": "index.js"}\n',
          "package/index.js": "module.exports = (a, b) => a + b;\n"}  # fmt: skip
TARBALL = _tarred(MODULE)
GO_MOD = "module modules.example.org/text\n\ngo 1.18\n"
GO_SOURCE = 'package text\n\n// Upper shouts.\nfunc Upper(s string) string { return s + "!" }\n'
GO_ZIP = _zipped(
    {f"modules.example.org/text@v1.0.0/{name}": text for name, text in (("go.mod", GO_MOD), ("text.go", GO_SOURCE))}
)
CRATE = _tarred(
    {
        "tinycrate-1.0.0/Cargo.toml": '[package]\nname = "tinycrate"\nversion = "1.0.0"\nedition = "2021"\n',
        "tinycrate-1.0.0/src/lib.rs": "pub fn double(n: u32) -> u32 {\n    n * 2\n}\n",
    }
)


def _packages(path: str) -> Answer:
    for name, data in PACKAGES.items():
        if path == f"/files/{name}":
            return 200, "application/octet-stream", data
        if path == f"/simple/{name.partition('-')[0]}/":
            digest = hashlib.sha256(data).hexdigest()
            return 200, "text/html", f'<a href="/files/{name}#sha256={digest}">{name}</a>'.encode()
    return MISSING


def _registry(path: str) -> Answer:
    if path == "/tinysum/-/tinysum-1.0.0.tgz":
        return 200, "application/octet-stream", TARBALL
    if path != "/tinysum":
        return MISSING
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(TARBALL).digest()).decode()
    url = "http://registry.example.org/tinysum/-/tinysum-1.0.0.tgz"
    version = json.loads(MODULE["package/package.json"]) | {"dist": {"tarball": url, "integrity": integrity}}
    document = {"name": "tinysum", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    return 200, "application/json", json.dumps(document).encode()


def _modules(path: str) -> Answer:
    name = path.removeprefix("/text/@v/").removeprefix("/modules.example.org/text/@v/")
    info = b'{"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"}'
    files = {"list": b"v1.0.0\n", "v1.0.0.info": info, "v1.0.0.mod": GO_MOD.encode(), "v1.0.0.zip": GO_ZIP}
    return (200, "text/plain", files[name]) if name in files else MISSING


def _crates(path: str) -> Answer:
    """A sparse index of cargo."""
    if path == "/config.json":
        return 200, "application/json", b'{"dl": "http://crates.example.org/dl/{crate}-{version}.crate"}'
    if path == "/ti/ny/tinycrate":
        digest = hashlib.sha256(CRATE).hexdigest()
        line: dict[str, Any] = {
            "name": "tinycrate",
            "vers": "1.0.0",
            "deps": [],
            "cksum": digest,
            "features": {},
            "yanked": False,
        }
        return 200, "text/plain", json.dumps(line).encode() + b"\n"
    return (200, "application/octet-stream", CRATE) if path == "/dl/tinycrate-1.0.0.crate" else MISSING


def _files(path: str) -> Answer:
    return (200, "text/plain", b"a line\nanother line\n") if path in {"/data.txt", "/install.txt"} else MISSING


ANSWERS: dict[str, Callable[[str], Answer]] = {
    "packages.example.org": _packages,
    "registry.example.org": _registry,
    "modules.example.org": _modules,
    "crates.example.org": _crates,
    "files.example.org": _files,
}


class HostHandler(BaseHTTPRequestHandler):
    """Answers by the name that the client asked for. `requested` of the server holds every name and path."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").partition(":")[0]
        path = self.path.partition("?")[0]
        assert isinstance(self.server, HostServer)
        self.server.requested.append(f"{host}{path}")
        body = self._body()
        if host == "git.example.org":
            self._send(*self._git(body))
        elif host == "api.example.org":
            is_known = self.headers.get("Authorization", "").startswith("Bearer gho_")
            self._send(200 if is_known else 401, "application/json", json.dumps({"path": path, "id": 7}).encode())
        else:
            self._send(*ANSWERS.get(host, lambda _: MISSING)(path))

    do_POST = do_HEAD = do_GET

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _git(self, body: bytes) -> Answer:
        path, _, query = self.path.partition("?")
        variables = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(REMOTES),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "developer",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=variables)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        return int(fields.get("Status", "200").split()[0]), fields.get("Content-Type", "text/plain"), data

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if kind == "application/octet-stream":  # a package never changes
            self.send_header("Cache-Control", "max-age=31536000, immutable")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the output is a report."""


class HostServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((ADDRESS, PORT), HostHandler)
        self.requested: list[str] = []


@contextmanager
def hosts_served() -> Generator[HostServer]:
    with HostServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
