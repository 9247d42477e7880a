"""`outlast serve` as a process: where it listens, what it says, how it leaves."""

from __future__ import annotations

import signal
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from outlast.app.api_token import TokenFile
from outlast.app.settings import load_settings
from outlast.core.errors import ConfigError
from outlast.doors.http.server.listen import ListenAddress, check, tls_context
from outlast.doors.http.server.run import serve_here
from tests.http.certificate import certificate
from tests.support.http_server import Server, call, reply
from tests.support.terminal import Place

EVERYWHERE = "0.0.0.0"  # noqa: S104 it is refused, or never bound


def test_it_says_where_it_is_and_how_to_get_in(tmp_path: Path) -> None:
    place = Place(tmp_path)
    process = place.start("serve", "--port", "0", "--model", "none")
    assert process.stdout is not None
    try:
        told = [process.stdout.readline() for _ in range(5)]
        url = told[0].removeprefix("Outlast is at ").strip()
        link = told[1].removeprefix("Log a browser in: ").strip()
        assert link.startswith(f"{url}/login?code=")
        assert str(place.home) in told[3]
        assert "Ctrl-C stops it" in told[4]
        fresh = place.run("serve", "url").stdout.strip()
        with httpx.Client(base_url=url, trust_env=False) as browser:
            for one in (link, fresh):
                assert browser.get(one).status_code == 303
                assert browser.get(one).status_code == 401
            assert browser.get("/api/sessions").json() == []
        assert _mode(place.home / "state" / "token") == 0o600
        assert _mode(place.home / "state" / "serve.json") == 0o600
        assert _mode(place.home / "state") == 0o700
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert "no server runs" in place.run("serve", "url").stderr
    assert not (place.home / "state" / "serve.json").exists()


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_streams_leaves_turns_open_and_the_next_start_goes_on(tmp_path: Path, number: int) -> None:
    server = Server(tmp_path, "--permission-mode", "danger-full-access")
    server.says(call("bash", command="echo ran >> witness; sleep 60"), *[reply("Went on.")] * 4)
    with server, server.client() as client:
        sid = server.create()
        server.post(sid, "run")
        witness = server.place.project / "witness"
        server.until(lambda: witness.exists() and witness.read_text() != "")
        with client.stream("GET", f"/api/sessions/{sid}/stream") as stream:
            frames = stream.iter_raw()
            next(frames)
            assert server.stop(number) == (0, "")
            for _ in frames:  # ends by itself, and not by an error
                pass
        server.start()
        messages = server.until_idle(sid)
        assert "Went on." in [message["content"] for message in messages]
        assert witness.read_text() == "ran\n"


def test_no_resume_leaves_what_waits_to_continue(tmp_path: Path) -> None:
    server = Server(tmp_path, model="none")
    with server:
        sid = server.create()
        server.post(sid, "waiting")
        server.stop()
        server.model = server.place.model
        server.start("--no-resume")
        assert server.detail(sid)["session"]["activity"] == "waiting"
        server.api("POST", f"/api/sessions/{sid}/continue")
        assert server.until_idle(sid)[-1]["content"] == "Hello."


def test_the_token_is_in_no_log_and_not_in_the_process_list(tmp_path: Path) -> None:
    with Server(tmp_path, model="none") as server:
        assert server.process is not None
        link = server.login_url()
        with httpx.Client(trust_env=False) as browser:
            browser.get(link)
            browser.get(f"{server.url}/api/sessions?token={server.token}")
            browser.get(f"{server.url}/login?code=guess")
        server.raw(f"GET /{server.token} HTTP/1.1\r\nHost: evil\r\n\r\n".encode(), timeout=0.5)
        words = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        code, errors = server.stop()
        assert code == 0
        for secret in (server.token, link.partition("code=")[2]):
            assert secret not in errors
            assert secret.encode() not in words


def test_a_unix_socket_is_only_for_its_owner_and_wants_the_token_too(tmp_path: Path) -> None:
    path = tmp_path / "serve.sock"
    with Server(tmp_path / "served", "--unix", str(path), model="none") as server:
        assert _mode(path) == 0o600
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://localhost") as client:
            assert client.get("/api/sessions").status_code == 401
            assert client.get("/api/sessions", headers=server.headers).json() == []
            assert client.get("/api/sessions", headers={**server.headers, "Host": "evil"}).status_code == 403
        second = server.place.run("serve", "--unix", str(path), "--model", "none")
        assert (second.returncode, "in use by another server" in second.stderr) == (1, True)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
            assert client.get("/healthz").status_code == 200
        server.kill()
        assert path.exists()
        server.start()
    assert not path.exists()


def test_tls_is_spoken_and_the_cookie_is_secure(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with Server(tmp_path / "served", "--tls-cert", str(cert), "--tls-key", str(key), model="none") as server:
        assert server.told["url"].startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(base_url=server.told["url"], verify=trusted, trust_env=False) as client:
            link = client.post("/api/login", headers=server.headers).json()["path"]
            assert "Secure" in client.get(link).headers["set-cookie"]
            same = {**server.headers, "Origin": server.told["url"]}
            assert client.post("/api/sessions", headers=same).status_code == 200
            plain = {**server.headers, "Origin": f"http://127.0.0.1:{server.port}"}
            assert client.post("/api/sessions", headers=plain).status_code == 403
        asked = subprocess.run(
            [sys.executable, "-m", "outlast", "serve", "url"],
            env=server.place.environment() | {"OUTLAST_TOKEN": server.token},
            capture_output=True,
            text=True,
        )
        assert asked.stdout.startswith(f"{server.told['url']}/login?code="), asked.stderr


# --- what is refused, in one sentence


def refused(place: Place, *words: str, status: int = 1) -> str:
    done = place.run("serve", "--model", "none", *words)
    assert done.returncode == status, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_port_in_use_is_told_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refused(Place(tmp_path), "--port", str(port))
    assert f"port {port}" in told
    assert "--port" in told


def test_a_store_that_cannot_be_opened_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "not-a-store").mkdir()
    told = refused(Place(tmp_path / "place"), "--port", "0", "--store", f"sqlite:///{tmp_path / 'not-a-store'}")
    assert "not-a-store" in told


def test_a_model_that_cannot_be_had_is_told_in_one_sentence(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert "unknown model 'nonsense'" in refused(place, "--port", "0", "--model", "nonsense")
    assert "ANTHROPIC_API_KEY" in refused(place, "--port", "0", "--model", "anthropic:some-model")


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    place = Place(tmp_path)
    without = "import sys; sys.modules['litestar'] = None; from outlast.doors.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", without, "serve"], env=place.environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'outlast[http]'" in done.stderr


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"host": EVERYWHERE}, "--tls-cert"),
        ({"host": "192.0.2.1"}, "--expose"),
        ({"host": "::"}, "--expose"),
        ({"host": "example.com", "expose": True}, "--tls-cert"),
        ({"host": EVERYWHERE, "tls_cert": "c", "tls_key": "k"}, "--expose"),
        ({"tls_cert": "c"}, "--tls-key"),
        ({"tls_key": "k"}, "--tls-cert"),
        ({"behind_proxy": True}, "--public-url"),
        ({"host": EVERYWHERE, "behind_proxy": True}, "--public-url"),
        ({"public_url": "http://agent.example"}, "https://"),
        ({"public_url": "https://agent.example/path"}, "path"),
        ({"public_url": "https://user@agent.example"}, "--public-url"),
        ({"public_url": "https://agent.example:x"}, "--public-url"),
        ({"public_url": "javascript:alert(1)"}, "--public-url"),
    ],
)
def test_what_others_could_reach_is_refused_without_tls_and_a_word(wanted: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        check(_listen(wanted))


@pytest.mark.parametrize(
    ("wanted", "warnings"),
    [
        ({}, 0),
        ({"host": "localhost"}, 0),
        ({"host": "127.0.0.5"}, 0),
        ({"host": "::1"}, 0),
        ({"behind_proxy": True, "public_url": "https://agent.example"}, 0),
        ({"host": EVERYWHERE, "behind_proxy": True, "public_url": "https://agent.example:8443"}, 1),
        ({"host": EVERYWHERE, "expose": True, "tls_cert": "c", "tls_key": "k"}, 1),
        ({"public_url": "http://localhost:9000"}, 0),
    ],
)
def test_what_is_allowed_warns_where_others_can_reach_it(wanted: dict[str, Any], warnings: int) -> None:
    assert len(check(_listen(wanted))) == warnings


def _listen(wanted: dict[str, Any]) -> ListenAddress:
    return msgspec.convert(wanted, ListenAddress, dec_hook=lambda kind, value: kind(value))


def test_a_bad_certificate_is_told_in_one_sentence(tmp_path: Path) -> None:
    text, none = tmp_path / "text.pem", tmp_path / "none.pem"
    text.write_text("no certificate")
    with pytest.raises(ConfigError, match="PEM"):
        tls_context(ListenAddress(tls_cert=text, tls_key=text))
    with pytest.raises(ConfigError, match=r"none\.pem: there is no such file"):
        tls_context(ListenAddress(tls_cert=none, tls_key=none))


def test_a_token_of_the_users_own_is_not_replaced(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, token="x" * 43)
    with pytest.raises(ConfigError, match="change it there"):
        serve_here(settings, ListenAddress(port=0), new_token=True)
    made = TokenFile(load_settings(home=tmp_path))
    before = made.token()
    assert len(before) >= 43
    made.replace()
    assert made.token() != before
    (tmp_path / "state" / "token").write_text("short")
    with pytest.raises(ConfigError, match="contains no token"):
        made.token()
