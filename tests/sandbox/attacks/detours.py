"""Ways round a wall: other names of the same file, unusual system calls, mounts of the sandbox itself, swapped links."""

from tests.sandbox.attack import Attack, Effect, attacks, numbered
from tests.sandbox.attacks.git_files import planted

_MOUNTS = "for m in $(cut -d' ' -f5 /proc/self/mountinfo | sort -u); do "
_PYTHON = "python3 -c \"import ctypes, os; c = ctypes.CDLL(None); p = '@out@/canary.txt'; "
_EVIL = "@project@/e"

WRITES = (
    _MOUNTS + "echo evil >> ${m%/}@out@/canary.txt; done",
    _MOUNTS + "echo evil > ${m%/}@out@/new-$RANDOM; done",
    "for p in /proc/[0-9]*/root; do echo evil >> $p@out@/canary.txt; done",
    "for p in /proc/[0-9]*/cwd; do echo evil >> $p/../../outside/canary.txt; done",
    _PYTHON + "d = os.open('/', os.O_PATH); os.write(os.open(p[1:], os.O_WRONLY | os.O_APPEND, dir_fd=d), b'evil')\"",
    _PYTHON + 'os.close(os.open(p, os.O_RDONLY | os.O_TRUNC))"',
    _PYTHON + "os.setxattr(p, 'user.evil', b'1')\"",
    _PYTHON + "open('mine', 'w'); c.renameat2(-100, b'mine', -100, p.encode(), 2)\"",
    _PYTHON + "f = os.open(p, os.O_RDONLY); c.linkat(-100, b'/proc/self/fd/%d' % f, -100, b'link', 0x400); "
    "open('link', 'a').write('evil')\"",
    _PYTHON + "os.link(p, 'link'); open('link', 'a').write('evil')\"",
    _PYTHON + "s = os.open('README.md', 0); t = os.open(p, os.O_WRONLY); os.copy_file_range(s, t, 4)\"",
    _PYTHON + "t = os.open(p, os.O_WRONLY); c.fallocate(t, 0, 0, 4096)\"",
    "mkdir d; cp README.md d/canary.txt; (while :; do ln -sfn @out@ l; ln -sfn d l; done) & "
    "for i in $(seq 300); do cp README.md l/canary.txt; done 2>/dev/null; kill %1",
    "ln -s @out@ l; tar cf - README.md | tar xf - -C l; rsync -a README.md l/ 2>/dev/null; cp README.md l/new.txt",
    "mkfifo @out@/pipe; mknod @out@/pipe2 p",
)  # fmt: skip

READS = (
    _MOUNTS + "cat ${m%/}@home@/.ssh/id_ed25519; done 2>/dev/null",
    "for p in /proc/[0-9]*/root; do cat $p@home@/.aws/credentials; done 2>/dev/null",
    _MOUNTS + "cat ${m%/}@ours@/state/token; done 2>/dev/null",
    "ln -s @home@/.netrc l; cat l; cp -L l copied; cat copied; rm l",
    "git diff --no-index /dev/null @home@/.git-credentials",
    "mkdir a; ln -s @home@/.kube a/k; tar chf - a | tar xOf -",
)  # fmt: skip

_LINKED = "cd @project@ && git init -q r && mkdir n && ln -s ../r/.git n/.git"
_COPY = f"cp -r r/.git g; printf '[core]\\nfsmonitor = {_EVIL}\\n' >> g/config; "

GIT = numbered("git-detours", [
    *planted("", (
        _COPY + "rm n/.git; mv g n/.git",
        _COPY + "rm n/.git; ln -s ../g n/.git",
        _COPY + "rm n/.git; echo 'gitdir: ../g' > n/.git",
        _COPY + "for i in $(seq 20); do rm -rf n/.git; cp -r g n/.git; done",
    ), "cd @project@/n && git status", _LINKED),
    *planted("", (
        f"git init -q n; mkdir m; mv n/.git m/x; cp -r m/x n/.git; printf '[core]\\nfsmonitor = {_EVIL}\\n' >> n/.git/config",
        (f"git init -q n; git config -f c core.fsmonitor {_EVIL}", "cp -r n/.git g; cat c >> g/config; mv n o; mkdir n; mv g n/.git"),
        (f"git init -q n; git config -f c core.fsmonitor {_EVIL}", "mv n o; cat c >> o/.git/config; mv o n"),
    ), "cd @project@/n && git status"),
    *attacks("", Effect.PROTECTED, (
        "cp .git/config x; echo '#' >> x; python3 -c \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'x', -100, b'.git/config', 2)\"",
        "cp .git/config .git/config.lock; echo '#' >> .git/config.lock; mv .git/config.lock .git/config",
        "cp .git/config x; echo '#' >> x; ln -f x .git/config",
        "GIT_DIR=.git GIT_WORK_TREE=. git config --local evil.x y",
        "GIT_CONFIG_NOSYSTEM=1 git -C .git config --file config evil.x y",
        "cd .git/hooks/.. && echo '#' >> config",
        "echo '#' >> /proc/self/cwd/.git/config",
    )),
])  # fmt: skip

ATTACKS: list[Attack] = [
    *attacks("write-detours", Effect.FILES, WRITES),
    *attacks("read-detours", Effect.SECRET, READS),
    *GIT,
]
