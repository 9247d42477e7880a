"""The text of the macOS profile. Nothing here runs `sandbox-exec`."""

import re
from pathlib import Path

import pytest

from outlast.runtime.sandbox import seatbelt
from outlast.runtime.sandbox.port import CommandWalls, Need, NeedKind


def rules(text: str) -> list[str]:
    """Return the rules of a profile in order, each on one line; fails if a parenthesis or a quote is not closed."""
    found: list[str] = []
    depth, start, at = 0, 0, 0
    while at < len(text):
        raw = re.compile(r'#"[^"]*"').match(text, at)
        quoted = raw or re.compile(r'"(?:[^"\\]|\\.)*"').match(text, at)
        if quoted:
            at = quoted.end()
            continue
        assert text[at] != '"', "a quote is not closed"
        start = at if depth == 0 else start
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        assert depth >= 0
        at += 1
        if depth == 0 and text[at - 1] == ")":
            found.append(re.sub(r"\s*\n\s*", " ", text[start:at]))
    assert depth == 0
    return found


def test_writes_and_network_are_denied_before_anything_is_allowed(tmp_path: Path) -> None:
    text = seatbelt.profile(CommandWalls(roots=(tmp_path / "p",)), temporary=tmp_path / "t")
    found = rules(text)
    assert found[:4] == ["(version 1)", "(allow default)", "(deny file-write*)", "(deny network*)"]
    assert f'(allow file-read* file-write* (subpath "{tmp_path}/p"))' in found
    assert f'(allow file-read* file-write* (subpath "{tmp_path}/t"))' in found
    assert not any(rule.startswith("(allow network") for rule in found)
    assert "(deny signal)" in found
    assert found.index("(deny signal)") < found.index("(allow signal (target same-sandbox))")


def test_read_only_command_writes_only_to_its_temporary_folder(tmp_path: Path) -> None:
    found = rules(seatbelt.profile(CommandWalls(roots=(tmp_path / "p",), read_only=True), temporary=tmp_path / "t"))
    written = [rule for rule in found if rule.startswith("(allow") and "file-write*" in rule and "/dev/" not in rule]
    assert written == [f'(allow file-read* file-write* (subpath "{tmp_path}/t"))']
    assert f'(allow file-read* (subpath "{tmp_path}/p"))' in found


def test_of_nested_folders_the_inner_one_comes_last(tmp_path: Path) -> None:
    home = tmp_path / "home"
    walls = CommandWalls(
        roots=(home / "work",), hidden=(home / "work" / "keys", home), shown=(home / "work" / "keys" / "public",)
    )
    found = rules(seatbelt.profile(walls, temporary=tmp_path / "t"))
    order = [
        f'(deny file-read* file-write* (subpath "{home}"))',
        f'(allow file-read* file-write* (subpath "{home}/work"))',
        f'(deny file-read* file-write* (subpath "{home}/work/keys"))',
        f'(allow file-read* (subpath "{home}/work/keys/public"))',
    ]
    assert [rule for rule in found if rule in order] == order


def protecting(text: str) -> tuple[list[str], str]:
    """Return the literals and the joined regular expressions of the rule that protects git's files."""
    rule = next(rule for rule in rules(text) if rule.startswith("(deny file-write* (regex"))
    return re.findall(r'\(literal "([^"]*)"\)', rule), "|".join(re.findall(r'\(regex #"([^"]*)"\)', rule))


def test_protected_files_cannot_be_written_and_the_rest_of_git_can(tmp_path: Path) -> None:
    root, other = tmp_path / "a.b", tmp_path / "separate"
    (root / ".git").mkdir(parents=True)
    text = seatbelt.profile(CommandWalls(roots=(root,)), temporary=tmp_path / "t", git_folders=[other])
    literals, pattern = protecting(text)
    assert literals == [f"{root}/.git", str(other)]
    for name in ("config", "config.worktree", "hooks", "hooks/pre-commit", "info/attributes", "commondir", "gitdir"):
        for folder in (f"{root}/.git", f"{root}/.git/modules/lib/x", f"{root}/.git/worktrees/w", str(other)):
            assert re.search(pattern, f"{folder}/{name}"), name
    for path in (".outlast", ".outlast/rules.toml"):
        assert re.search(pattern, f"{root}/{path}")
    for path in (".git/index", ".git/HEAD", ".git/objects/aa/bb", ".git/refs/heads/config-x", ".git/info/exclude", "a"):
        assert not re.search(pattern, f"{root}/{path}"), path
    assert not re.search(pattern, f"{tmp_path}/aXb/.git/config")
    found = rules(text)
    protection = next(at for at, rule in enumerate(found) if rule.startswith("(deny file-write* (regex"))
    assert protection > found.index(f'(allow file-read* file-write* (subpath "{root}"))')


def test_folder_without_git_may_become_a_repository(tmp_path: Path) -> None:
    text = seatbelt.profile(CommandWalls(roots=(tmp_path,)), temporary=tmp_path / "t")
    literals, pattern = protecting(text)
    assert literals == []
    assert not re.search(pattern, f"{tmp_path}/.git/config")


@pytest.mark.parametrize(
    "name", ['quo"te', "back\\slash", 'end\\"', "par(en)s", "a b", "émile", '")(allow network*)("']
)
def test_names_cannot_end_a_string_or_add_a_rule(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    (root / ".git").mkdir(parents=True)
    walls = CommandWalls(roots=(root,), hidden=(root / "keys",), needs=(Need(NeedKind.WRITE, str(root / "w")),))
    plain = CommandWalls(
        roots=(tmp_path / "p",), hidden=(tmp_path / "p/keys",), needs=(Need(NeedKind.WRITE, str(tmp_path / "p/w")),)
    )
    (tmp_path / "p" / ".git").mkdir(parents=True)
    found = rules(seatbelt.profile(walls, temporary=tmp_path / "t"))
    assert len(found) == len(rules(seatbelt.profile(plain, temporary=tmp_path / "t")))
    assert "(allow network*)" not in found
    escaped = str(root).replace("\\", "\\\\").replace('"', '\\"')
    assert f'(allow file-read* file-write* (subpath "{escaped}"))' in found
    _, pattern = protecting("\n".join(found))
    assert re.search(pattern, f"{root}/.git/config")


@pytest.mark.parametrize("name", ["new\nline", "tab\t", "bell\x07", "del\x7f"])
def test_control_character_in_a_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="holds a control character"):
        seatbelt.profile(CommandWalls(roots=(tmp_path / name,)), temporary=tmp_path / "t")


def test_lifted_walls_and_the_proxy_come_last(tmp_path: Path) -> None:
    needs = (
        Need(NeedKind.WRITE, str(tmp_path / "data")),
        Need(NeedKind.READ, str(tmp_path / "keys")),
        Need(NeedKind.LOCALHOST, "5432"),
        Need(NeedKind.SOCKET, str(tmp_path / "s.sock")),
    )
    walls = CommandWalls(roots=(tmp_path / "p",), hidden=(tmp_path / "keys",), needs=needs)
    text = seatbelt.profile(walls, temporary=tmp_path / "t", proxy_port=3128, proxy_socket=tmp_path / "proxy")
    assert rules(text)[-4:] == [
        '(allow network-outbound (remote ip "localhost:3128") (remote ip "localhost:5432"))',
        f'(allow network-outbound (literal "{tmp_path}/proxy") (literal "{tmp_path}/s.sock"))',
        f'(allow file-read* (subpath "{tmp_path}/keys"))',
        f'(allow file-read* file-write* (subpath "{tmp_path}/data"))',
    ]


def test_command_line_passes_the_profile_as_one_word() -> None:
    assert seatbelt.argv("(version 1)\n", ["sh", "-c", "x y"]) == [
        *("/usr/bin/sandbox-exec", "-p", "(version 1)\n", "sh", "-c", "x y"),
    ]
