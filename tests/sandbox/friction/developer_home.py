"""The files of a developer: a home with settings, a project with history and a remote, another repository, a folder."""

import subprocess
from pathlib import Path

from tests.sandbox.friction.everyday import HOME, LIBRARY, OUTSIDE, PROJECT, PYTHON, REMOTES, TOOLS
from tests.sandbox.friction.stand_ins import write_stand_ins

WHEN = "2024-05-01T12:00:00+0000"
ENVIRONMENT = {
    "PATH": f"{TOOLS}:{PYTHON}/bin:/usr/local/bin:/usr/bin:/bin",
    "LD_LIBRARY_PATH": str(PYTHON / "lib"),
    "HOME": str(HOME),
    "USER": "developer",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "GIT_AUTHOR_DATE": WHEN,
    "GIT_COMMITTER_DATE": WHEN,
    "GIT_EDITOR": "true",
    "PYTHONHASHSEED": "0",
}
"""Commits have a fixed date, so that both runs of a command make the same ones."""
GITCONFIG = """[user]
name = Developer
email = developer@example.org
[init]
defaultBranch = main
[pack]
threads = 1
[advice]
detachedHead = false
[pull]
rebase = false
"""
MISE_TOML = """[tools]
go = '1.22'

[tasks.test]
run = 'go test ./...'

[tasks.unit]
run = 'python3 tests/runtests.py'

[tasks.lint]
run = 'golangci-lint run'

[tasks.build]
run = 'go build -o build/tool ./cmd/tool'

[tasks.fmt]
run = 'go fmt ./...'

[tasks.generate]
run = 'go generate ./...'

[tasks.docs]
run = 'sphinx-build -b html docs build/html'

[tasks.clean]
run = 'rm -rf build'

[tasks.check]
run = 'sh -c "go vet ./... && python3 -m compileall -q src"'

[tasks.fail]
run = 'sh -c "echo failed; exit 3"'

"""
MAKEFILE = """all: build/report.txt
build/report.txt: data/orders.csv
\tmkdir -p build
\tsort $< > $@
test:
\tpython3 tests/runtests.py
clean:
\trm -rf build
install: all
\tinstall -D build/report.txt dist/share/report.txt
lint:
\tpython3 -m compileall -q src
.PHONY: all test clean install lint
"""
PACKAGE_JSON = """{
  "name": "shop", "version": "1.0.0", "private": true,
  "scripts": {"test": "node web/test.js", "build": "node web/build.js"}
}
"""
FILES = {
    "README.md": "# Shop\n\nA small shop.\n\n## Use\n\nRun it.\n",
    "Makefile": MAKEFILE,
    "mise.toml": MISE_TOML,
    "package.json": PACKAGE_JSON,
    "go.mod": "module example.org/shop\n\ngo 1.22\n",
    "go.sum": "example.org/b v1\nexample.org/a v1\n",
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\n',
    ".gitignore": "build/\ndist/\nnode_modules/\n__pycache__/\n.pytest_cache/\n*.log\n.venv/\n.env\n",
    "cmd/tool/main.go": 'package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println("shop")\n}\n',
    "internal/parse/parse.go": "package parse\n\n// Parse splits.   \nfunc Parse(s string) []string { return nil }\n",
    "internal/parse/parse_test.go": 'package parse\n\nimport "testing"\n\nfunc TestParse(t *testing.T) {}\n',
    "src/shop/__init__.py": '"""A shop."""\n',
    "src/shop/cart.py": "def total(prices):\n    return sum(prices)\n\n\ndef count(prices):\n    return len(prices)\n",
    "src/shop/price.py": "TAX = 0.19\n\n\ndef gross(net):\n    return round(net * (1 + TAX), 2)\n",
    "tests/test_cart.py": "import sys\n\nsys.path.insert(0, 'src')\nfrom shop.cart import total\n\n\n"
    "def test_total():\n    assert total([1, 2]) == 3\n",
    "tests/test_price.py": "import sys\n\nsys.path.insert(0, 'src')\nfrom shop.price import gross\n\n\n"
    "def test_gross():\n    assert gross(100) == 119\n",
    "tests/runtests.py": "import os, sys\nhere = os.path.dirname(os.path.abspath(__file__))\n"
    "sys.path[:0] = [here, os.path.join(here, '..', 'src')]\n"
    "from shop.cart import total\nfrom shop.price import gross\n"
    "assert total([1, 2]) == 3 and gross(100) == 119\n"
    "names = [word for word in sys.argv[1:] if not word.startswith('-')]\n"
    "print('OK', *names)\nsys.exit(1 if 'missing' in names else 0)\n",
    "reproduce.py": "import sys\nsys.path.insert(0, 'src')\nfrom shop.price import gross\nprint(gross(10))\n",
    "reproduce_issue.py": "import sys\nsys.path.insert(0, 'src')\nfrom shop.cart import total\n"
    "assert total([0.1, 0.2]) == 0.3, total([0.1, 0.2])\n",
    "scripts/report.py": "import collections, csv, sys\nrows = list(csv.reader(open('data/orders.csv')))\n"
    "out = open(sys.argv[1], 'w') if len(sys.argv) > 1 else sys.stdout\n"
    "print(len(rows), collections.Counter(row[1] for row in rows).most_common(1), file=out)\n",
    "scripts/migrate.py": "import sqlite3, sys\nbase = sqlite3.connect(sys.argv[1])\n"
    "base.execute('create table t (a)')\nbase.commit()\n",
    "bin/test": '#!/bin/sh\nexec python3 "$(dirname "$0")/../tests/runtests.py" "$@"\n',
    "bin/release": "#!/bin/sh\nset -e\nmkdir -p dist\necho release > dist/release.txt\n",
    "docs/index.rst": "Shop\n====\n\nWelcome.\n",
    "docs/conf.py": "project = 'shop'\n",
    "data/orders.csv": "3,apple,2\n1,pear,5\n2,apple,1\n",
    "data/config.json": '{"name": "shop", "ports": [80, 443]}\n',
    "web/index.js": "module.exports = (a, b) => a + b;\n",
    "web/test.js": "const add = require('./index.js');\nif (add(1, 2) !== 3) process.exit(1);\nconsole.log('ok');\n",
    "web/build.js": "require('fs').mkdirSync('dist', {recursive: true});\n"
    "require('fs').writeFileSync('dist/bundle.js', 'built');\n",
}
EXECUTABLE = ("bin/test", "bin/release", "tests/runtests.py")


def git(folder: Path, *words: str) -> str:
    argv = ["git", "-C", str(folder), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout


def create_home() -> None:
    """Create everything. The remote has a commit on main that the project has not fetched."""
    for name, text in {
        ".gitconfig": GITCONFIG,
        "notes.txt": "remember the milk\n",
        ".bashrc": "alias ll='ls -l'\n",
        ".npmrc": "registry=http://registry.example.org/\naudit=false\nfund=false\nupdate-notifier=false\n",
        ".config/pip/pip.conf": "[global]\nindex-url = http://packages.example.org/simple\n"
        "trusted-host = packages.example.org\ndisable-pip-version-check = true\n",
        ".config/gh/hosts.yml": "github.com:\n    oauth_token: gho_0123456789abcdef0123456789abcdef0123\n",
        "downloads/data.csv": "9,plum,1\n",
        ".cache/motd": "hello\n",
        "go/README": "the user's modules\n",
    }.items():
        write_file(HOME / name, text)
    write_file(OUTSIDE / "shared.txt", "shared\n")
    write_file(OUTSIDE / "logs" / "app.log", "INFO start\nERROR stop\n")
    write_stand_ins(TOOLS)
    _create_project()
    git(HOME, "init", "-q", str(LIBRARY))
    write_file(LIBRARY / "lib.py", "VERSION = 1\n")
    git(LIBRARY, "add", ".")
    git(LIBRARY, "commit", "-qm", "library")


def _create_project() -> None:
    PROJECT.mkdir()
    git(PROJECT, "init", "-q")
    for name, text in FILES.items():
        write_file(PROJECT / name, text)
    for name in EXECUTABLE:
        (PROJECT / name).chmod(0o755)
    git(PROJECT, "add", ".")
    git(PROJECT, "commit", "-qm", "first")
    _commit("CHANGES.md", "1.0\n", "changes")
    git(PROJECT, "tag", "v0.1")
    git(PROJECT, "branch", "old")
    git(PROJECT, "switch", "-qc", "feature")
    _commit("src/shop/discount.py", "def discount(price):\n    return price * 0.9\n", "discount")
    _commit("docs/discount.rst", "Discount\n========\n", "discount docs")
    git(PROJECT, "switch", "-q", "main")
    _commit("CHANGES.md", "1.1\n1.0\n", "version 1.1")
    _commit("data/orders.csv", FILES["data/orders.csv"] + "4,plum,7\n", "an order")
    remote = REMOTES / "shop.git"
    git(HOME, "clone", "-q", "--bare", str(PROJECT), str(remote))
    git(remote, "config", "http.receivepack", "true")
    git(remote, "config", "pack.threads", "1")  # with several, a pack is a different one each time
    git(PROJECT, "remote", "add", "origin", "http://git.example.org/shop.git")
    git(PROJECT, "update-ref", "refs/remotes/origin/main", "main")
    git(PROJECT, "update-ref", "refs/remotes/origin/feature", "feature")
    git(PROJECT, "config", "branch.main.remote", "origin")
    git(PROJECT, "config", "branch.main.merge", "refs/heads/main")
    _upstream_commit(remote)
    write_file(PROJECT / "README.md", FILES["README.md"] + "\nWork in progress.\n")
    git(PROJECT, "stash", "-q")
    write_file(PROJECT / "scratch.txt", "untracked\n")
    write_file(
        PROJECT / "src/shop/cart.py", FILES["src/shop/cart.py"] + "\n\ndef empty(prices):\n    return not prices\n"
    )


def _upstream_commit(remote: Path) -> None:
    other = HOME.parent / "colleague"
    git(HOME, "clone", "-q", str(remote), str(other))
    write_file(other / "UPSTREAM.md", "from a colleague\n")
    git(other, "add", ".")
    git(other, "commit", "-qm", "upstream")
    git(other, "push", "-q", "origin", "main")


def _commit(name: str, text: str, subject: str) -> None:
    write_file(PROJECT / name, text)
    git(PROJECT, "add", name)
    git(PROJECT, "commit", "-qm", subject)


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
