"""Small programs that stand in for those which a test machine lacks. They do what matters to a sandbox: they read the
project, write results into it, keep caches where the real ones do, need the network where the real ones do."""

import sys
from pathlib import Path

import pytest

from tests.sandbox.friction.everyday import PYTHON

MISE = r"""#!/bin/sh
config=mise.toml; [ -f "$config" ] || config=$HOME/project/mise.toml
verb=$1; [ $# -gt 0 ] && shift
case $verb in
run|r)
    task=$1; shift; [ "$1" = -- ] && shift
    line=$(sed -n "/^\[tasks.$task\]/,/^$/s/^run = '\(.*\)'/\1/p" "$config")
    [ -n "$line" ] || { echo "mise ERROR no task $task found" >&2; exit 1; }
    echo "[$task] $ $line" >&2
    mkdir -p "$HOME/.cache/mise" && echo "$task" >> "$HOME/.cache/mise/runs" || exit 1
    exec sh -c "$line \"\$@\"" sh "$@" ;;
tasks) sed -n 's/^\[tasks\.\(.*\)\]/\1/p' "$config" ;;
exec|x) [ "$1" = -- ] && shift; exec "$@" ;;
ls) echo "go  1.22"; echo "node  20" ;;
current) echo "go 1.22" ;;
env) echo "export MISE_SHELL=bash" ;;
trust) mkdir -p "$HOME/.cache/mise" && touch "$HOME/.cache/mise/trusted" ;;
--version|version) echo "2024.1.0" ;;
*) echo "mise ERROR unknown command $verb" >&2; exit 2 ;;
esac
"""
GO = r"""#!/bin/sh
cache=${GOCACHE:-$HOME/.cache/go-build}; modules=${GOMODCACHE:-$HOME/go/pkg/mod}
verb=$1; [ $# -gt 0 ] && shift
keep() { mkdir -p "$cache/00" && echo "$1" >> "$cache/00/$verb"; }
work=$(mktemp -d) || exit 1; trap 'rm -rf "$work"' EXIT
case $verb in
test)
    keep "$*" || exit 1
    profile=; failed=0
    for word; do case $word in -coverprofile=*) profile=${word#*=} ;; esac; done
    for file in $(find . -name '*_test.go' | sort); do
        cp "$file" "$work/test.go" || exit 1
        if grep -q FAIL_ME "$file"; then echo "--- FAIL: $file"; failed=1; else echo "ok $(dirname "$file")"; fi
    done
    [ -z "$profile" ] || echo "mode: set" > "$profile"
    exit $failed ;;
build|install)
    keep "$*" || exit 1
    out=; while [ $# -gt 0 ]; do case $1 in -o) out=$2; shift ;; -*) ;; *) package=$1 ;; esac; shift; done
    printf '#!/bin/sh\necho "tool: $*"\n' > "$work/a.out"; chmod 755 "$work/a.out"
    if [ $verb = install ]; then mkdir -p "$HOME/go/bin" && cp "$work/a.out" "$HOME/go/bin/tool"; exit; fi
    grep -rqs 'syntax error' "${package%/...}" --include=*.go && { echo "syntax error" >&2; exit 1; }
    [ -z "$out" ] || { mkdir -p "$(dirname "$out")" && cp "$work/a.out" "$out"; } ;;
run) keep "$*" || exit 1; while [ $# -gt 0 ]; do case $1 in -*) ;; *) break ;; esac; shift; done
    [ -e "$1" ] || { echo "package $1 is not in std" >&2; exit 1; }
    shift; echo "tool: $*" ;;
vet) grep -rn 'Printf("%d", "' --include=*.go . && exit 1; exit 0 ;;
fmt) for file in $(find . -name '*.go'); do sed -i 's/[ \t]*$//' "$file"; done ;;
list) find . -name '*.go' -exec dirname {} \; | sort -u ;;
doc) echo "package $1 // documentation" ;;
env) echo "GOCACHE='$cache'" ;;
version) echo "go version go1.22 linux/amd64" ;;
generate) echo "// generated" > internal/parse/generated.go ;;
clean) rm -rf "$cache/00" ;;
mod) case $1 in
    tidy) sort -u -o go.sum go.sum ;;
    graph) cat go.mod ;;
    vendor) mkdir -p vendor && echo "# vendored" > vendor/modules.txt ;;
    verify) echo "all modules verified" ;;
    download) mkdir -p "$modules/cache" && curl -sSf http://modules.example.org/text/@v/list > "$modules/cache/list" ;;
    *) exit 2 ;; esac ;;
get) mkdir -p "$modules/cache" && curl -sSf "http://modules.example.org/text/@v/list" > "$modules/cache/list" &&
    echo "require example.org/text v1.0.0" >> go.mod ;;
*) echo "go $verb: unknown command" >&2; exit 2 ;;
esac
"""
GOLANGCI_LINT = r"""#!/bin/sh
mkdir -p "$HOME/.cache/golangci-lint" && echo "$*" >> "$HOME/.cache/golangci-lint/runs" || exit 1
case " $* " in
*" --fix "*) find . -name '*.go' -exec sed -i 's/TODO: lint/DONE: lint/' {} \; ;;
*" cache "*|*" linters "*|*" version "*) exit 0 ;;
esac
! grep -rn 'TODO: lint' --include=*.go .
"""
GH = r"""#!/bin/sh
# Logs in as gh does: by a variable, or by the token that `gh auth login` keeps in the home.
token=${GH_TOKEN:-$(sed -n 's/.*oauth_token: //p' "$HOME/.config/gh/hosts.yml" 2>/dev/null)}
[ -n "$token" ] || {
    echo "To get started with GitHub CLI, please run:  gh auth login" >&2
    echo "Alternatively, populate the GH_TOKEN environment variable with a GitHub API authentication token." >&2
    exit 4; }
ask() { curl -sSf -H "Authorization: Bearer $token" "http://api.example.org/$1" || exit 1; }
verb=$1; shift
case $verb in
api) for word; do case $word in repos/*|user|/user|graphql) path=$word ;; esac; done
    case " $* " in *" -X POST "*|*" -f "*) curl -sSf -X POST -H "Authorization: Bearer $token" -d "$*" \
        "http://api.example.org/$path" || exit 1 ;; *) ask "$path" ;; esac ;;
pr) case $1 in
    create) curl -sSf -X POST -H "Authorization: Bearer $token" -d "$*" http://api.example.org/repos/shop/pulls ;;
    checkout) git fetch -q origin "feature" && git checkout -q feature ;;
    *) ask "repos/shop/pulls" ;; esac ;;
run|issue|release|repo) ask "repos/shop/$verb" ;;
*) exit 2 ;;
esac
"""
SPHINX = r"""#!/bin/sh
while [ $# -gt 2 ]; do shift; done
mkdir -p "$2" || exit 1
for page in "$1"/*.rst; do
    { echo "<html>"; sed 's/^/<p>/' "$page"; } > "$2/$(basename "$page" .rst).html" || exit 1
done
"""


def write_stand_ins(folder: Path) -> None:
    """Write the programs, and wrappers for the tools of the tests' own environment."""
    texts = {"mise": MISE, "go": GO, "golangci-lint": GOLANGCI_LINT, "gh": GH, "sphinx-build": SPHINX}
    packages = Path(pytest.__file__).parent.parent
    quiet = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTHONPATH={packages}"
    texts["pytest"] = f'#!/bin/sh\n{quiet} exec python3 -m pytest "$@"\n'
    texts["ruff"] = f'#!/bin/sh\nexec {Path(sys.executable).parent}/ruff "$@"\n'
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    if not (PYTHON / "bin" / "python").exists():
        (folder / "python").symlink_to(PYTHON / "bin" / "python3")
