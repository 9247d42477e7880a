"""The files of the page: which there are, with which types, hashes and policy; and rules about the scripts."""

import re
from pathlib import Path

import pytest

import outlast.doors.web
from outlast.doors.web import assets

STATIC = Path(outlast.doors.web.__file__).parent / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
POLICY = assets.index_page().headers["Content-Security-Policy"]


def addresses() -> list[str]:
    return re.findall(r'(?:src|href)="/static/([^"]+)"', assets.index_page().body.decode())


def test_everything_the_page_names_is_there_under_one_hash() -> None:
    found = addresses()
    assert len(found) > 40
    assert all(assets.asset(path) is not None for path in found)
    assert len({path.partition("/")[0] for path in found}) == 1


def test_every_module_that_is_imported_is_named_in_the_head() -> None:
    """So that they come at once, not one import after the other."""
    named = {path.partition("/")[2] for path in addresses()}
    for script in SCRIPTS:
        for imported in re.findall(r'from "(\.[^"]+)"', script.read_text()):
            path = (script.parent / imported).resolve().relative_to(STATIC.resolve())
            assert path.as_posix() in named, f"{script.name} imports {imported}"


def test_files_have_their_types_and_may_be_kept_for_ever() -> None:
    for path in addresses():
        found = assets.asset(path)
        assert found is not None
        assert found.headers["Content-Type"] == found.media_type
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert "immutable" in found.headers["Cache-Control"]
        assert found.media_type.startswith(
            {"js": "text/javascript", "css": "text/css", "svg": "image/svg"}[path.rpartition(".")[2]]
        )


@pytest.mark.parametrize(
    "path", ["", "app.js", "0123456789abcdef/app.js", "../pages.py", "index.html", "login.html", "x/../../pages.py"]
)
def test_nothing_else_can_be_asked_for(path: str) -> None:
    version = addresses()[0].partition("/")[0]
    assert assets.asset(path) is None
    if path != "app.js":
        assert assets.asset(f"{version}/{path}") is None


def test_the_policy_allows_our_own_scripts_and_styles_and_nothing_else() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert (rules["require-trusted-types-for"], rules["trusted-types"]) == ("'script'", "'none'")
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


def test_the_page_has_no_inline_script_or_style() -> None:
    body = assets.index_page().body.decode()
    assert re.findall(r"<script(?![^>]*src=)", body) == []
    assert "<style" not in body
    assert re.findall(r"\s(?:style|on\w+)=", body) == []


def test_the_login_page_needs_no_other_file_and_escapes_its_note() -> None:
    found = assets.login_page('<script>alert("x")</script>')
    body = found.body.decode()
    assert "<script" not in body
    assert re.findall(r"(?:src|href)=", body) == []
    assert "sha256-" in found.headers["Content-Security-Policy"]
    assert "script-src" not in found.headers["Content-Security-Policy"]
    assert "outlast serve url" in body


FORBIDDEN = {
    "innerHTML": r"\binnerHTML\b",
    "outerHTML": r"\bouterHTML\b",
    "insertAdjacentHTML": r"insertAdjacentHTML",
    "document.write": r"document\.write",
    "eval": r"\beval\s*\(",
    "Function": r"new Function",
    "a timer with code": r"set(?:Timeout|Interval)\(\s*[\"'`]",
    "parsing markup": r"DOMParser|createContextualFragment|setHTML|srcdoc",
    "another host": r"https?://(?!www\.w3\.org/2000/svg)",
    "an import from elsewhere": r"(?:from|import\()\s*[\"'](?!\.{1,2}/)",
    "a style attribute": r"setAttribute\(\s*[\"']style",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_script_uses(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    assert [script.name for script in SCRIPTS if pattern.search(script.read_text())] == []


def test_scripts_are_short_and_say_what_they_are() -> None:
    for script in SCRIPTS:
        text = script.read_text()
        assert text.startswith("/*"), script.name
        assert len(text.splitlines()) <= 300, script.name
