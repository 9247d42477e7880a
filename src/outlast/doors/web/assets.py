"""The static files of the web page, with their media types and headers. Requests look up a fixed table, never a path.

All files are below `/static/<hash>/`, where the hash covers all of them together: browsers may cache them for ever, and
a page never mixes modules of two versions. The page itself is revalidated each time.

The content security policy allows only our own scripts and styles: no inline code, no other host, no frame, no form,
and no way for text to become markup (Trusted Types without any policy).
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape
from pathlib import Path

import msgspec

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "X-DNS-Prefetch-Control": "off",  # the browser must not resolve a link in a reply before the user clicks it
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


FIRST = "first_paint.js"
"""The only script that is not a module: it must run before the first paint."""


class Asset(msgspec.Struct, frozen=True):
    """A complete response: body, media type and headers."""

    body: bytes
    media_type: str
    headers: dict[str, str]


def asset(path: str) -> Asset | None:
    """Return the file for the path below `/static/`; None if the file or its version is unknown."""
    return _assets().get(path)


def index_page() -> Asset:
    """Return the page for a signed-in browser."""
    return _index()


def login_page(note: str | None = None) -> Asset:
    """Return the page for every other browser: how to sign in, and in `note` why signing in failed. It needs no other
    file."""
    page = _text("login.html")
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    told = f'<p class="note" role="alert">{escape(note)}</p>' if note else ""
    return _html(page.replace("<!--note-->", told), policy)


# --- the files -------------------------------------------------------------------------------------------------------


@cache
def _files() -> dict[str, bytes]:
    """Return the files by path below the folder, sorted: the order of the style sheets decides which rule wins."""
    paths = sorted(path for path in _FOLDER.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(_FOLDER).as_posix(): path.read_bytes() for path in paths}


@cache
def _version() -> str:
    whole = hashlib.sha256()
    for name, body in _files().items():
        whole.update(f"{name}:{len(body)}:".encode() + body)
    return whole.hexdigest()[:16]


@cache
def _assets() -> dict[str, Asset]:
    headers = {**_ALWAYS, "Cache-Control": "private, max-age=31536000, immutable"}
    return {
        f"{_version()}/{name}": Asset(body, media_type, {"Content-Type": media_type, **headers})
        for name, body in _files().items()
        for media_type in (_TYPES[Path(name).suffix],)
    }


@cache
def _index() -> Asset:
    """Build the page. Its head names every module, so that the browser loads them in parallel."""
    folder = f"/static/{_version()}"
    modules = [
        f'<link rel="modulepreload" href="{folder}/{name}">'
        for name in _files()
        if name.endswith(".js") and name != FIRST
    ]
    styles = [f'<link rel="stylesheet" href="{folder}/{name}">' for name in _files() if name.endswith(".css")]
    page = _text("index.html").replace("/static/", f"{folder}/").replace("<!--files-->", "\n".join([*styles, *modules]))
    return _html(page, POLICY)


def _text(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def _html(page: str, policy: str) -> Asset:
    media_type = "text/html; charset=utf-8"
    headers = {**_ALWAYS, "Cache-Control": "no-cache", "Content-Security-Policy": policy}
    return Asset(page.encode(), media_type, {"Content-Type": media_type, **headers})
