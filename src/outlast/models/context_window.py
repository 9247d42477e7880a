"""Asks a model server for the size of a model's context window, where the server's model list says it.

The question is asked once per process for each address and model, in a background thread, within two seconds; a server
that had not loaded the model is asked again after its first reply. Only a caller of `wait` waits for it. The key
goes only to the configured address; redirects are not followed. An answer is a hint: a server that says nothing leaves
the window unknown.

    vLLM              GET  {url}/models               max_model_len
    OpenRouter, ...   GET  {url}/models               context_length, context_window, max_context_length
    llama.cpp         GET  {server}/props             default_generation_settings.n_ctx, else meta.n_ctx_train
    LM Studio         GET  {server}/api/v0/models     loaded_context_length, else max_context_length
    Ollama            GET  {server}/api/ps, POST {server}/api/show    context_length of the loaded model, else num_ctx
"""

from __future__ import annotations

import http.client
import ipaddress
import threading
import time
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote, urlsplit

import msgspec

from outlast.models.port import UNKNOWN_WINDOW

SECONDS = 2.0
MOST_BYTES = 16 * 1024 * 1024
SMALLEST, LARGEST = 256, 100_000_000
OTHER_LISTS = frozenset({"anthropic", "google", "google-cloud", "bedrock", "cohere", "huggingface", "xai"})
"""Providers whose servers do not offer the list of an OpenAI-compatible server."""
PUBLIC_LISTS = {"openrouter": "https://openrouter.ai/api/v1"}
"""Public lists, which are requested without the key."""
_LISTED = ("loaded_context_length", "max_model_len", "context_length", "context_window", "max_context_length")


class WindowLookup:
    """One question to a server, in a thread of its own."""

    def __init__(self, url: str, model: str, key: str | None, *, ollama: bool = False) -> None:
        self.tokens: int | None = None
        self._server = _Server(url, key)
        self._model = model
        self._ollama = ollama
        self._done = threading.Event()
        self._again = False
        self._start()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait(self, seconds: float = SECONDS) -> int | None:
        self._done.wait(seconds)
        return self.tokens

    def after_reply(self) -> None:
        """Ask a server once more that had not loaded the model: with the first reply it decided on the window."""
        if self.done and self._server.is_unloaded and not self._again:
            self._again = True
            self._server = self._server.again()
            self._start()

    def _start(self) -> None:
        threading.Thread(target=self._run, name="outlast-window", daemon=True).start()

    def _run(self) -> None:
        try:
            found = (_window(value) for value in _values(self._server, self._model, ollama=self._ollama))
            self.tokens = next((tokens for tokens in found if tokens is not None), self.tokens)
        finally:
            self._done.set()


_lookups: dict[tuple[str, str], WindowLookup] = {}
_asking = threading.Lock()


def window_lookup(kind: str, url: str | None, model: str, key: str | None) -> WindowLookup | None:
    """Return this process's lookup for a model, started with the first call; None if the provider offers no list."""
    address = url or PUBLIC_LISTS.get(kind)
    if address is None or kind in OTHER_LISTS:
        return None
    with _asking:
        lookup = _lookups.get((address, model))
        if lookup is None:
            lookup = WindowLookup(address, model, key if url else None, ollama=kind == "ollama")
            _lookups[address, model] = lookup
        return lookup


# --- what servers say ------------------------------------------------------------------------------------------------


def _values(server: _Server, model: str, *, ollama: bool) -> Iterator[object]:
    """Yield what the server says about the model's window, the best source first; later ones are asked only if needed.

    Only a server on this machine or network whose list names the model is asked for more than its list.
    """
    if ollama:
        yield from _ollama(server, model)
        return
    entry = _entry(server.get("/models"), model)
    meta = _mapping(entry.get("meta"))
    yield from (entry.get(name) for name in _LISTED[:2])
    if meta or entry.get("owned_by") == "llamacpp":
        yield from _llama(server, model)
    yield meta.get("n_ctx")
    yield from (entry.get(name) for name in _LISTED[2:])
    yield _mapping(entry.get("top_provider")).get("context_length")
    if server.is_near and entry:
        studio = _entry(server.get("/api/v0/models", root=True), model)
        server.is_unloaded = bool(studio) and not studio.get("loaded_context_length")
        yield studio.get("loaded_context_length") or studio.get("max_context_length")
        yield from _llama(server, model)
        yield from _ollama(server, model)
    yield meta.get("n_ctx_train")


def _llama(server: _Server, model: str) -> Iterator[object]:
    """Ask llama.cpp for the context of a slot. `autoload=false`: a server with several models must not load one."""
    props = _mapping(server.get(f"/props?model={quote(model, safe='')}&autoload=false", root=True))
    yield _mapping(props.get("default_generation_settings")).get("n_ctx")


def _ollama(server: _Server, model: str) -> Iterator[object]:
    """Ask Ollama. A model that is not loaded gets `num_ctx` or a default that depends on the machine's memory, so the
    length the model was trained with says only how large the window cannot be."""
    loaded = _mapping(server.get("/api/ps", root=True)).get("models")
    for one in cast("list[object]", loaded) if isinstance(loaded, list) else ():
        if model in {_mapping(one).get("name"), _mapping(one).get("model")}:
            yield _mapping(one).get("context_length")
    shown = _mapping(server.post("/api/show", {"model": model}))
    server.is_unloaded = bool(shown)
    for line in str(shown.get("parameters", "")).splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and value.strip().isdecimal():
            yield int(value)
    for name, value in _mapping(shown.get("model_info")).items():
        if name.endswith(".context_length") and isinstance(value, int) and value < UNKNOWN_WINDOW:
            yield value


def _entry(body: object, model: str) -> dict[str, Any]:
    """Return the model's entry in a list of models, or the only entry of a server that has one model."""
    listed: object = _mapping(body).get("data", body)
    entries = [_mapping(item) for item in cast("list[object]", listed)] if isinstance(listed, list) else []
    for entry in entries:
        if model in {entry.get("id"), entry.get("name")}:
            return entry
    return entries[0] if len(entries) == 1 else {}


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _window(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and SMALLEST <= value <= LARGEST:
        return value
    return None


# --- requests --------------------------------------------------------------------------------------------------------


class _Server:
    """The server behind a base URL. A request that fails, takes too long or answers no JSON gives None.

    `is_unloaded`: the server knows the model and has not loaded it, so its answer is not final.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self.is_unloaded = False
        self._url = url
        self._place = urlsplit(url)
        self._path = self._place.path.rstrip("/")
        self._key = key
        self._until = time.monotonic() + SECONDS

    def again(self) -> _Server:
        """Return the same server with new time to answer."""
        return _Server(self._url, self._key)

    @property
    def is_near(self) -> bool:
        """Whether the server runs on this machine or in a private network."""
        host = self._place.hostname or ""
        try:
            return ipaddress.ip_address(host).is_private
        except ValueError:
            return "." not in host or host.endswith((".local", ".internal", ".lan"))

    def get(self, path: str, *, root: bool = False) -> object:
        return self._asked("GET", (self._path.removesuffix("/v1") if root else self._path) + path, None)

    def post(self, path: str, body: dict[str, str]) -> object:
        return self._asked("POST", self._path.removesuffix("/v1") + path, msgspec.json.encode(body))

    def _asked(self, method: str, path: str, body: bytes | None) -> object:
        seconds = self._until - time.monotonic()
        if seconds <= 0 or self._place.scheme not in {"http", "https"}:
            return None
        kind = http.client.HTTPSConnection if self._place.scheme == "https" else http.client.HTTPConnection
        headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {})}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            link = kind(self._place.hostname or "", self._place.port, timeout=seconds)
            try:
                link.request(method, path, body, headers)
                answer = link.getresponse()
                return msgspec.json.decode(self._read(answer)) if answer.status == 200 else None
            finally:
                link.close()
        except (OSError, http.client.HTTPException, msgspec.DecodeError, ValueError, RecursionError):
            return None

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        """Read the body in pieces: a server that sends a byte now and then must not hold the thread for ever."""
        body = bytearray()
        while piece := answer.read1(65_536):
            body += piece
            if len(body) > MOST_BYTES or time.monotonic() > self._until:
                raise TimeoutError("the list of models is too long or comes too slowly")
        return bytes(body)
