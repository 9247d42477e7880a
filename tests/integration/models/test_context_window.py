"""The size of a model's window is asked from its server once, in the background, and never at the cost of a wait."""

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from outlast.models import context_window
from outlast.models.context_window import WindowLookup, window_lookup
from outlast.models.port import WindowSource
from outlast.models.providers import ProviderModel

MODEL = "qwen3:8b"


class FakeServer:
    """Answers paths with JSON and notes what it was asked, with which key."""

    def __init__(self, answers: dict[str, Any], delay: float = 0.0) -> None:
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.asked.append((self.path, self.headers.get("Authorization")))
                time.sleep(delay)
                answer = answers.get(self.path.partition("?")[0])
                body = b"no" if answer is None else json.dumps(answer).encode()
                status = 404 if answer is None else 200
                if isinstance(answer, str):
                    status, body = 302, b""
                self.send_response(status)
                if isinstance(answer, str):
                    self.send_header("Location", answer)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class QuietServer(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that did not wait is what some tests are about."""

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.root}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def paths(self) -> list[str]:
        return [path.partition("?")[0] for path, _ in self.asked]


@contextmanager
def serving(answers: dict[str, Any], delay: float = 0.0) -> Generator[FakeServer]:
    server = FakeServer(answers, delay)
    try:
        yield server
    finally:
        server.close()


def listed(**fields: Any) -> dict[str, Any]:
    return {"/v1/models": {"data": [{"id": "other", "context_length": 999}, {"id": MODEL, **fields}]}}


OTHERS = [{"name": "other", "context_length": 999}]
SERVERS: dict[str, tuple[dict[str, Any], int | None]] = {
    "vLLM": (listed(max_model_len=40_960), 40_960),
    "OpenRouter": (listed(context_length=131_072, top_provider={"context_length": 65_536}), 131_072),
    "Groq": (listed(context_window=32_000), 32_000),
    "Mistral": (listed(max_context_length=64_000), 64_000),
    "a bare list": ({"/v1/models": [{"id": MODEL, "context_length": 8_192}]}, 8_192),
    "llama.cpp": (
        {
            **listed(owned_by="llamacpp", meta={"n_ctx_train": 262_144}),
            "/props": {"default_generation_settings": {"n_ctx": 16_384}},
        },
        16_384,
    ),
    "llama.cpp without props": (listed(owned_by="llamacpp", meta={"n_ctx_train": 262_144}), 262_144),
    "llama.cpp with another name": ({"/v1/models": {"data": [{"id": "x.gguf", "meta": {"n_ctx": 4_096}}]}}, 4_096),
    "LM Studio, loaded": (
        {
            **listed(owned_by="organization_owner"),
            "/api/v0/models": {"data": [{"id": MODEL, "max_context_length": 131_072, "loaded_context_length": 4_096}]},
        },
        4_096,
    ),
    "LM Studio, not loaded": (
        {**listed(), "/api/v0/models": {"data": [{"id": MODEL, "max_context_length": 131_072}]}},
        131_072,
    ),
    "Ollama, loaded": (
        {**listed(), "/api/ps": {"models": [*OTHERS, {"name": MODEL, "context_length": 40_000}]}},
        40_000,
    ),
    "Ollama with num_ctx": (
        {**listed(), "/api/ps": {"models": OTHERS}, "/api/show": {"parameters": 'stop "x"\nnum_ctx    16384'}},
        16_384,
    ),
    "Ollama, trained for more than it may give": (
        {**listed(), "/api/show": {"parameters": "", "model_info": {"qwen3.context_length": 262_144}}},
        None,
    ),
    "Ollama, trained for less": (
        {**listed(), "/api/show": {"model_info": {"phi.context_length": 2_048}}},
        2_048,
    ),
    "nothing": ({}, None),
    "odd values": (listed(context_length="many", max_model_len=True, context_window=-1, max_context_length=1.5), None),
    "no model of that name": ({"/v1/models": {"data": [{"id": "a", "context_length": 1_000}, {"id": "b"}]}}, None),
    "strange JSON": ({"/v1/models": {"data": {"id": MODEL}}, "/props": [1], "/api/ps": {"models": 3}}, None),
}


@pytest.mark.parametrize("name", SERVERS)
def test_each_server_is_understood(name: str) -> None:
    answers, tokens = SERVERS[name]
    with serving(answers) as server:
        assert WindowLookup(server.url, MODEL, None).wait() == tokens


def test_an_ollama_is_asked_as_one() -> None:
    with serving({"/api/ps": {"models": [{"model": MODEL, "context_length": 8_192}]}}) as server:
        lookup = window_lookup("ollama", server.url, MODEL, None)
        assert lookup is not None
        assert lookup.wait() == 8_192
        assert server.paths == ["/api/ps"]


def test_the_key_goes_to_the_configured_address_and_no_redirect_is_followed() -> None:
    with (
        serving(listed(context_length=5_000)) as elsewhere,
        serving({"/v1/models": f"{elsewhere.url}/models"}) as server,
    ):
        assert WindowLookup(server.url, MODEL, "secret").wait() is None
        assert {key for _, key in server.asked} == {"Bearer secret"}
        assert elsewhere.asked == []


def test_a_model_asks_once_per_process_and_does_not_wait() -> None:
    with serving(listed(context_length=77_000), delay=0.2) as server:
        models = [ProviderModel(f"openai:{MODEL}", url=server.url, key="k") for _ in range(3)]
        began = time.monotonic()
        assert {model.abilities.window_source for model in models} == {WindowSource.ASSUMED}
        assert time.monotonic() - began < 0.15
        models[0].settle_window()
        for model in models:
            assert (model.abilities.context_window, model.abilities.window_source) == (77_000, WindowSource.PROVIDER)
        assert server.paths == ["/v1/models"]


def test_a_server_that_does_not_answer_is_waited_for_no_longer_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context_window, "SECONDS", 0.2)
    with serving(listed(context_length=77_000), delay=1.0) as server:
        began = time.monotonic()
        assert WindowLookup(server.url, MODEL, None).wait(1.0) is None
        assert time.monotonic() - began < 0.9


def test_a_server_that_had_not_loaded_the_model_is_asked_once_more_after_a_reply() -> None:
    answers: dict[str, Any] = {"/api/ps": {"models": []}, "/api/show": {"model_info": {"q.context_length": 262_144}}}
    with serving(answers) as server:
        lookup = WindowLookup(server.url, MODEL, None, ollama=True)
        assert lookup.wait() is None
        answers["/api/ps"] = {"models": [{"name": MODEL, "context_length": 4_096}]}
        lookup.after_reply()
        until = time.monotonic() + 2
        while lookup.tokens is None and time.monotonic() < until:
            time.sleep(0.01)
        assert lookup.tokens == 4_096
        asked = len(server.asked)
        lookup.after_reply()
        assert len(server.asked) == asked


def test_a_setting_wins_and_nobody_is_asked() -> None:
    with serving(listed(context_length=77_000)) as server:
        model = ProviderModel(f"openai:{MODEL}", url=server.url, context_window=9_000)
        assert (model.abilities.context_window, model.abilities.window_source) == (9_000, WindowSource.SETTING)
        model.settle_window()
        assert server.asked == []


def test_a_known_model_at_its_providers_address_needs_no_question() -> None:
    model = ProviderModel("openai:gpt-4o", key="k")
    assert model.abilities.window_source == WindowSource.KNOWN_MODEL
    assert model.abilities.context_window == 128_000


def test_providers_with_another_kind_of_list_are_not_asked() -> None:
    assert window_lookup("anthropic", "http://127.0.0.1:1", "m", "k") is None
    assert window_lookup("groq", None, "m", "k") is None


def test_the_source_is_told_in_words() -> None:
    assert WindowSource.PROVIDER.described(1_000) == "provider"
    assert WindowSource.ASSUMED.described(32_768) == "assumed 32,768: set context_window"
