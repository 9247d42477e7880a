"""Whether an Ollama is here."""

import socket
import threading

from outlast.models.default_choice import ollama_models


def answering(body: bytes, status: str = "200 OK") -> str:
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening, listening.accept()[0] as link:
            link.recv(65536)
            link.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_its_models_are_listed() -> None:
    body = b'{"models": [{"name": "qwen3:8b", "size": 1}, {"name": "x"}]}'
    assert ollama_models(answering(body), 5) == ["qwen3:8b", "x"]


def test_something_else_on_its_port_is_no_ollama() -> None:
    assert ollama_models(answering(b"<html>"), 5) is None
    assert ollama_models(answering(b"{}", "404 Not Found"), 5) is None


def test_nobody_there_is_found_out_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert ollama_models(f"http://127.0.0.1:{port}") is None


def test_one_that_does_not_answer_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert ollama_models(f"http://127.0.0.1:{silent.getsockname()[1]}", 0.05) is None
