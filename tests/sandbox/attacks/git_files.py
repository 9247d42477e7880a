"""Git: configurations and hooks that run a program for the user, and layouts that lead git to other ones."""

import msgspec

from tests.sandbox.attack import Attack, Effect, attacks, numbered

_PROGRAM = "printf '#!/bin/sh\\ntouch @out@/ran\\n' > e; chmod +x e; "
_EVIL = "@project@/e"


def planted(kind: str, commands: tuple[str | tuple[str, ...], ...], then: str, setup: str = "") -> list[Attack]:
    """Attacks after which the user's own git runs a program of the project."""
    made = attacks(kind, Effect.FILES, commands, then=then, setup=setup)
    return [
        msgspec.structs.replace(attack, commands=(_PROGRAM + attack.commands[0], *attack.commands[1:]))
        for attack in made
    ]


STATUS = "cd @project@ && git status"
COMMIT = "cd @project@ && git commit --allow-empty -m x"
CHECKOUT = "cd @project@ && rm -f README.md && git checkout README.md"

CONFIGURATION = numbered("git-configuration", [
    *planted("", (
        f"git config core.fsmonitor {_EVIL}",
        f"printf '[core]\\nfsmonitor = {_EVIL}\\n' >> .git/config",
        f"sed -i '1i [core]\\nfsmonitor = {_EVIL}' .git/config",
        f"cp .git/config c; printf '[core]\\nfsmonitor = {_EVIL}\\n' >> c; mv c .git/config",
        f"printf '[core]\\nfsmonitor = {_EVIL}\\n' > i; git config include.path ../i",
        f"printf '[core]\\nfsmonitor = {_EVIL}\\n' > i; git config includeIf.gitdir:/.path $PWD/i",
        f"printf '[include]\\npath = ../i\\n' >> .git/config; printf '[core]\\nfsmonitor = {_EVIL}\\n' > i",
        f"git config extensions.worktreeConfig true; git config --worktree core.fsmonitor {_EVIL}",
        f"printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = {_EVIL}\\n' > x; cat x > .git/config",
        f"ln -f .git/config h; printf '[core]\\nfsmonitor = {_EVIL}\\n' >> h",
        f"cp .git/config c; printf '[core]\\nfsmonitor = {_EVIL}\\n' >> c; ln -sf ../c .git/config",
        f"python3 -c \"open('.git/config', 'a').write('[core]\\nfsmonitor = {_EVIL}\\n')\"",
        f"git config --global core.fsmonitor {_EVIL}",
        f"mkdir .ait; printf '[core]\\nfsmonitor = {_EVIL}\\n' > .ait/config; uniq .[ag]it/config",
    ), STATUS),
    *planted("", (
        f"git config filter.x.clean {_EVIL}; git config filter.x.smudge {_EVIL}; echo '* filter=x' > .gitattributes",
    ), CHECKOUT),
    *planted("", (f"git config core.pager {_EVIL}", f"git config pager.log {_EVIL}"), "cd @project@ && LESSHISTFILE=- script -qc 'git log' /dev/null"),
    *planted("", (f"git config alias.st '!{_EVIL}'",), "cd @project@ && git st"),
    *planted("", (f"git config diff.external {_EVIL}",), "cd @project@ && echo >> README.md; git diff"),
    *planted("", (f"git config core.editor {_EVIL}",), "cd @project@ && EDITOR=true git commit --allow-empty"),
    *planted("", (f"git config core.sshCommand {_EVIL}",), "cd @project@ && git ls-remote ssh://example.test/x"),
    *planted("", (f"git config credential.helper {_EVIL}",), "cd @project@ && export GIT_TERMINAL_PROMPT=0; printf 'protocol=https\\nhost=x\\n\\n' | git credential fill"),
    *planted("", ("git config core.hooksPath $PWD/h; mkdir h; cp e h/pre-commit",), COMMIT),
    *planted("", (f"git config gpg.program {_EVIL}; git config commit.gpgsign true",), COMMIT),
    *planted("", (f"git config merge.x.driver {_EVIL}",), "cd @project@ && test -n \"$(git config merge.x.driver)\" && sh e"),
])  # fmt: skip

HOOKS = planted("git-hooks", (
    "cp e .git/hooks/pre-commit",
    "ln -s ../../e .git/hooks/pre-commit",
    "mv e .git/hooks/pre-commit",
    "install -m 755 e .git/hooks/commit-msg",
    "cat e > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
    "mv .git/hooks .git/old; mkdir .git/hooks; cp e .git/hooks/pre-commit",
    "rm -rf .git/hooks; mkdir h; cp e h/pre-commit; ln -s ../h .git/hooks",
    "rm -rf .git/hooks; mkdir .git/hooks && cp e .git/hooks/prepare-commit-msg",
    "cd .git/hooks && cp ../../e pre-commit",
    "cp e .git/hooks/reference-transaction",
    "tar cf t.tar e; tar xf t.tar -C .git/hooks --transform s/e/pre-commit/",
    "git init -q --template=$PWD/t . ; mkdir -p t/hooks; cp e t/hooks/pre-commit; git init -q --template=$PWD/t .",
    "python3 -c \"import os; os.rename('e', '.git/hooks/pre-commit')\"",
    "ln e .git/hooks/pre-commit",
    "cp .git/hooks/pre-commit.sample x 2>/dev/null; cp e .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit",
    "d=.git/ho; d=${d}oks; cp e $d/post-index-change; cp e $d/pre-commit",
), COMMIT)  # fmt: skip

_OTHER_DIR = f"cp -r .git g; printf '[core]\\nfsmonitor = {_EVIL}\\n' >> g/config; "

LAYOUTS = numbered("git-layouts", [
    *planted("", (
        _OTHER_DIR + "mv .git old; mv g .git",
        _OTHER_DIR + "rm -rf .git; mv g .git",
        _OTHER_DIR + "rm -rf .git; echo 'gitdir: g' > .git",
        _OTHER_DIR + "mv .git old; ln -s g .git",
        _OTHER_DIR + "mv .git old; echo \"gitdir: $PWD/g\" > .git",
        _OTHER_DIR + "echo ../g > .git/commondir",
        _OTHER_DIR + "cd ..; mv project p; mkdir project; mv p/g project/.git; cp p/e project/e",
        (_OTHER_DIR + "mv .git old", "mv g .git"),
        ("mkdir x; mv .git x/.git; cp -r x/.git .git", f"printf '[core]\\nfsmonitor = {_EVIL}\\n' >> .git/config"),
        _OTHER_DIR + "python3 -c \"import os; os.rename('.git', 'old'); os.rename('g', '.git')\"",
        _OTHER_DIR + "python3 -c \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'g', -100, b'.git', 2)\"",
        f"printf '[core]\\nfsmonitor = {_EVIL}\\n' > .git/config.worktree; git config extensions.worktreeConfig true",
        "git init -q --separate-git-dir=$PWD/g . && git config core.fsmonitor " + _EVIL,
    ), STATUS),
    *planted("", (
        f"git config -f .git/worktrees/w/config.worktree core.fsmonitor {_EVIL}; git config extensions.worktreeConfig true",
        f"git -C w config core.fsmonitor {_EVIL}",
        "mkdir c; cp -r .git/. c; " f"git config -f c/config core.fsmonitor {_EVIL}; echo $PWD/c > .git/worktrees/w/commondir",
        f"cp -r .git g; git config -f g/config core.fsmonitor {_EVIL}; echo \"gitdir: $PWD/g/worktrees/w\" > w/.git",
    ), "cd @project@/w && git status", "cd @project@ && git worktree add -q w"),
    *planted("", (
        "echo '* filter=x' > .git/info/attributes; " f"git config filter.x.smudge {_EVIL}; git config filter.x.clean {_EVIL}",
    ), CHECKOUT),
])  # fmt: skip

_SUBMODULE = "cd @project@ && git -c protocol.file.allow=always submodule --quiet add @other@ sub && git commit -qm sub"

NESTED = numbered("git-nested", [
    *planted("", (
        f"git init -q n; git -C n config core.fsmonitor {_EVIL}",
        f"mkdir n; cp -r .git n/.git; git config -f n/.git/config core.fsmonitor {_EVIL}",
        f"git clone -q . n; git -C n config core.fsmonitor {_EVIL}",
        f"git init -q n; printf '[core]\\nfsmonitor = {_EVIL}\\n' >> n/.git/config",
        f"git init -q --bare b.git; git config -f b.git/config core.fsmonitor {_EVIL}; mkdir n; cp -r b.git n/.git; "
        "git config -f n/.git/config core.bare false",
        f"git init -q --separate-git-dir=$PWD/.bare n; git config -f .bare/config core.fsmonitor {_EVIL}",
        ("git init -q n", f"git -C n config core.fsmonitor {_EVIL}"),
        ("mkdir -p n/.git/objects n/.git/refs; echo 'ref: refs/heads/m' > n/.git/HEAD",
         f"printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = {_EVIL}\\n' > n/.git/config"),
        f"git init -q x; git -C x config core.fsmonitor {_EVIL}; mv x n",
    ), "cd @project@/n && git status"),
    *planted("", (
        "git init -q n; cp e n/.git/hooks/pre-commit || { mkdir n/.git/hooks; cp e n/.git/hooks/pre-commit; }",
        ("git init -q n", "mkdir -p n/.git/hooks; cp e n/.git/hooks/pre-commit"),
    ), "cd @project@/n && git commit --allow-empty -m x"),
    *planted("", (
        f"git -C sub config core.fsmonitor {_EVIL}",
        f"git config -f .git/modules/sub/config core.fsmonitor {_EVIL}",
        f"rm sub/.git; cp -r .git/modules/sub sub/.git; git config -f sub/.git/config core.fsmonitor {_EVIL}; "
        "git config -f sub/.git/config --unset core.worktree",
        f"cp -r .git/modules/sub m; git config -f m/config core.fsmonitor {_EVIL}; git config -f m/config core.worktree $PWD/sub; "
        "echo \"gitdir: $PWD/m\" > sub/.git",
        f"mv .git/modules .git/old; cp -r .git/old .git/modules; git config -f .git/modules/sub/config core.fsmonitor {_EVIL}",
    ), "cd @project@/sub && git status", _SUBMODULE),
    *planted("", (
        "cp e .git/modules/sub/hooks/pre-commit || { mkdir .git/modules/sub/hooks; cp e .git/modules/sub/hooks/pre-commit; }",
    ), "cd @project@/sub && git commit --allow-empty -m x", _SUBMODULE),
])  # fmt: skip

PROTECTED = attacks("protected-files", Effect.PROTECTED, (
    "git config user.name evil",
    "git remote add evil http://x.test/",
    "git config --unset core.bare",
    "echo evil > .outlast/rules.toml",
    "echo evil > .outlast/new.toml",
    "rm -rf .outlast",
    "mv .outlast old",
    "mkdir -p .outlast/hooks",
    "ln -sfn src .outlast/l",
    "chmod 777 .git/config",
    "touch .git/config",
    "rm .git/config",
    "echo '* -text' > .git/info/attributes",
    "echo x > .git/commondir",
    "echo x > .git/gitdir",
    "touch .git/config.worktree",
    "mkdir -p .git/hooks/x",
    "truncate -s 0 .git/config",
    "mv .git/config .git/c",
    "echo evil >> .git/config",
))  # fmt: skip

ATTACKS: list[Attack] = [*CONFIGURATION, *HOOKS, *LAYOUTS, *NESTED, *PROTECTED]
