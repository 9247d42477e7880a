"""Builds of small projects by an agent in an arena: `python -m ...package_builds NAME [FOLDER...]`.

FOLDERs, such as ~/.cargo, are those of this machine's user that the developer of the arena has too.

Packages come from indexes that the arena serves; the proxy reaches them by name. Each build has two sessions. In the
first the user grants a host once; in the second the network is off, and what was downloaded must be enough. It prints
one JSON object per command.
"""

import asyncio
import functools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from outlast import open_store
from outlast.app.sandbox import command_sandbox
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.runtime.sandbox import command_network
from outlast.runtime.sandbox.network.proxy import NetworkProxy
from outlast.runtime.turn.approvals import Question
from tests.sandbox.arena import LOWER
from tests.sandbox.friction.both_runs import MS_BIND, MS_REC, enter_arena, mount, only_hosts_are_public
from tests.sandbox.friction.developer_home import create_home, git, write_file
from tests.sandbox.friction.everyday import HOME, OURS
from tests.sandbox.friction.hosts import HostServer, hosts_served
from tests.support.agents import agent_with, call, only

BUILD = HOME / "build-project"


@dataclass(frozen=True)
class Build:
    files: dict[str, str]
    online: tuple[str, ...]
    offline: tuple[str, ...]


C_FILES = {
    "Makefile": "CFLAGS = -Wall -Werror\ncalc: main.o add.o\n\t$(CC) -o $@ $^\ntest: calc\n\t./calc 2 3 | grep -x 5\n"
    "dist: calc\n\tmkdir -p dist && tar cf dist/calc.tar calc\nclean:\n\trm -rf *.o calc dist\n",
    "main.c": "#include <stdio.h>\n#include <stdlib.h>\nint add(int, int);\n"
    'int main(int n, char **v) { (void)n; printf("%d\\n", add(atoi(v[1]), atoi(v[2]))); return 0; }\n',
    "add.c": "int add(int a, int b);\nint add(int a, int b) { return a + b; }\n",
}
GO_FILES = {
    "go.mod": "module example.org/app\n\ngo 1.18\n\nrequire modules.example.org/text v1.0.0\n",
    "main.go": 'package main\n\nimport (\n\t"fmt"\n\n\t"modules.example.org/text"\n)\n\n'
    'func Shout() string { return text.Upper("hey") }\n\nfunc main() { fmt.Println(Shout()) }\n',
    "main_test.go": 'package main\n\nimport "testing"\n\nfunc TestShout(t *testing.T) {\n'
    '\tif Shout() != "hey!" {\n\t\tt.Fatal(Shout())\n\t}\n}\n',
}
CARGO_FILES = {
    "Cargo.toml": '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\ntinycrate = "1"\n',
    ".cargo/config.toml": '[source.crates-io]\nreplace-with = "ours"\n\n[source.ours]\n'
    'registry = "sparse+http://crates.example.org/"\n',
    "src/main.rs": 'fn main() {\n    println!("{}", tinycrate::double(21));\n}\n\n#[cfg(test)]\nmod tests {\n'
    "    #[test]\n    fn doubles() {\n        assert_eq!(tinycrate::double(2), 4);\n    }\n}\n",
}
PACKAGE_JSON = """{"name": "app", "version": "1.0.0", "dependencies": {"tinysum": "^1.0.0"},
 "scripts": {"test": "node test.js", "prepare": "node -e \\"require('fs').writeFileSync('prepared', '')\\""}}
"""
AGAIN = (
    "rm -rf again && .venv/bin/pip install -q --no-index --find-links ~/.cache/wheels --target again "
    "-r requirements.txt && test -f again/tinysource.py"
)
BUILDS = {
    "pip": Build(
        {"requirements.txt": "tinytext==1.0\ntinysource==1.0\n"},
        (
            "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt",
            ".venv/bin/python -c 'import tinysource, tinytext; print(tinytext.upper(str(tinysource.ANSWER)))'",
            ".venv/bin/pip install -q --target again -r requirements.txt && ls again",
            ".venv/bin/pip wheel -q -w ~/.cache/wheels -r requirements.txt",
        ),
        (AGAIN,),
    ),
    "npm": Build(
        {
            "package.json": PACKAGE_JSON,
            "test.js": "if (require('tinysum')(1, 2) !== 3) process.exit(1);\nconsole.log('sum');\n",
        },
        ("npm install --no-progress", "npm test --silent", "test -f prepared && test -f package-lock.json"),
        ("rm -rf node_modules && npm ci --offline --no-progress && npm test --silent",),
    ),
    "make": Build(
        C_FILES, ("make -j2", "make test", "make dist && tar tf dist/calc.tar"), ("make clean && make test",)
    ),
    "go": Build(
        GO_FILES,
        ("go mod tidy", "go build -o app . && ./app", "go test ./...", "go vet ./..."),
        ("rm -f app && go clean -cache && go build -o app . && ./app && go test -count=1 ./...",),
    ),
    "cargo": Build(
        CARGO_FILES,
        ("cargo build", "./target/debug/app", "cargo test -q", "cargo run -q"),
        ("rm -rf target && cargo test -q --offline && cargo build --offline --release && ./target/release/app",),
    ),
}


async def session(network: str, commands: tuple[str, ...], server: HostServer) -> list[dict[str, Any]]:
    settings = load_settings(home=OURS, sandbox="auto", network=network, project_root=BUILD)
    sandbox = command_sandbox(settings)
    assert sandbox is not None
    asked: list[str] = []

    async def answer(question: Question) -> str:
        asked.append(question.reason or "")
        return "session"

    server.requested.clear()
    calls = [call("bash", f"c{at}", command=command, timeout=300) for at, command in enumerate(commands)]
    store = open_store(f"sqlite:///{OURS}/{network}.db")
    agent = agent_with(store, BUILD, *calls, "Done.", answerer=answer, prompting=True)
    agent.settings = settings
    try:
        await agent.run("Build it.")
    finally:
        sandbox.close()
    finished = only(agent, e.ToolCallFinished)
    rows = [
        {"command": command, "code": one.facts.get("exit_code"), "output": text_of(one.parts)[-3000:]}
        for command, one in zip(commands, finished, strict=True)
    ]
    return [{"network": network, "asked": asked, "requested": list(server.requested), "commands": rows}]


def create_project(build: Build) -> None:
    for name, text in build.files.items():
        write_file(BUILD / name, text)
    write_file(HOME / ".config/go/env", "GOPROXY=http://modules.example.org\nGOSUMDB=off\nGOFLAGS=-mod=mod\n")
    git(HOME, "init", "-q", str(BUILD))


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def main() -> None:
    build = BUILDS[sys.argv[1]]
    enter_arena()
    create_home()
    OURS.mkdir()
    os.environ["PATH"] = os.environ["PATH"].partition(":")[2]  # the real programs, not those that stand in for them
    for folder in map(Path, sys.argv[2:]):
        (HOME / folder.name).mkdir()
        mount(f"{LOWER}{folder}", str(HOME / folder.name), "", MS_BIND | MS_REC)
        os.environ["PATH"] = f"{HOME}/{folder.name}/bin:{os.environ['PATH']}"
    create_project(build)
    before = files_below(HOME / ".cache")
    proxy = functools.partial(NetworkProxy, forbids=only_hosts_are_public)
    with hosts_served() as server, patch.object(command_network, "NetworkProxy", proxy):
        for network, commands in (("ask", build.online), ("off", build.offline)):
            for row in asyncio.run(session(network, commands, server)):
                print(json.dumps(row))
    print(json.dumps({"home": [path for path in files_below(HOME / ".cache") if path not in before]}))
    print(json.dumps({"area": files_below(OURS / "sandbox" / "caches")}))


if __name__ == "__main__":
    main()
