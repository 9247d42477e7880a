"""Which files a browser gets, with which types and headers. Nothing else can be asked for: there are no paths to walk.

All files of the page live below `/static/<hash>/`, the hash being that of all of them together: they may be kept for
ever, and a page never mixes modules of two versions. The page itself is asked for again each time.

The policy allows our own scripts and styles and nothing else: no inline code, no other host, no frame, no form, and no
place where a text could become markup (Trusted Types without a single policy).
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
    "X-DNS-Prefetch-Control": "off",  # a link in a reply must not even be looked up before it is clicked
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


FIRST = "first_paint.js"
"""The only script that is no module: it must run before anything is drawn."""


class Asset(msgspec.Struct, frozen=True):
    """What is sent for one address, as it is."""

    body: bytes
    media_type: str
    headers: dict[str, str]


def asset(path: str) -> Asset | None:
    """The file for what follows `/static/`; None when it is none of ours, or of another version."""
    return _assets().get(path)


def index_page() -> Asset:
    """The page, for those who are signed in."""
    return _index()


def login_page(note: str | None = None) -> Asset:
    """What every other browser gets: how to sign in, and with `note` why it did not work. It needs no other file."""
    page = _text("login.html")
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    told = f'<p class="note" role="alert">{escape(note)}</p>' if note else ""
    return _html(page.replace("<!--note-->", told), policy)


# --- what there is ---------------------------------------------------------------------------------------------------


@cache
def _files() -> dict[str, bytes]:
    """By their paths below the folder, in order: the order of the style sheets decides which rule wins."""
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
    """With every module named in the head, so that they come all at once and not one import after the other."""
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
