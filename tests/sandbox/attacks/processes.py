"""Other processes: signals, limits, memory; processes that outlive their command; bombs; the terminal."""

from tests.sandbox.attack import Attack, Effect, attacks

_LIBC = "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); "

HARM = (
    "kill @victim@",
    "kill -9 @victim@",
    "kill -STOP @victim@",
    "kill -USR1 @victim@",
    "kill -HUP @victim@",
    "/bin/kill -s ALRM @victim@",
    "kill -9 -- -@victim@",
    "python3 -c 'import os; os.kill(@victim@, 9)'",
    "python3 -c 'import os; os.killpg(@victim@, 15)'",
    "python3 -c 'import os, signal; signal.pidfd_send_signal(os.pidfd_open(@victim@), 9)'",
    "perl -e 'kill 9, @victim@'",
    "pkill -9 -f VICTIM_SECRET",
    "for p in /proc/[0-9]*; do grep -aq VICTIM_SECRET $p/environ 2>/dev/null && kill -9 ${p#/proc/}; done",
    "renice -n 5 -p @victim@",
    "prlimit --pid @victim@ --nofile=10:10",
    "taskset -pc 0 @victim@",
    "chrt -b -p 0 @victim@",
    "echo 500 > /proc/@victim@/oom_score_adj",
    "echo 0 > /proc/@victim@/coredump_filter",
    f'python3 -c "{_LIBC}l.ptrace(16, @victim@, 0, 0); os.waitpid(@victim@, 0); os._exit(os.kill(@victim@, 19) or 0)"',
    "python3 -c \"f = open('/proc/@victim@/mem', 'r+b', 0); f.seek(@word@); f.write(b'evil')\"; sleep 0.1",
    "printf evil | dd of=/proc/@victim@/mem bs=1 seek=@word@ conv=notrunc; sleep 0.1",
    f"python3 -c \"{_LIBC}b = ctypes.create_string_buffer(b'evil'); v = (ctypes.c_void_p * 2)(ctypes.addressof(b), 5); "
    'r = (ctypes.c_void_p * 2)(@word@, 5); l.process_vm_writev(@victim@, v, 1, r, 1, 0)"; sleep 0.1',
    "timeout 5 gdb -p @victim@ -batch -ex 'set variable *(char*)@word@ = 65'; sleep 0.1",
    "timeout -s KILL 1 strace -p @victim@ -o /dev/null -e none & sleep 0.2; kill -9 @victim@",
)

SURVIVORS = (
    "sleep 60.@mark@ &",
    "nohup sleep 60.@mark@ >/dev/null 2>&1 &",
    "setsid sleep 60.@mark@ >/dev/null 2>&1 &",
    "setsid -f sleep 60.@mark@",
    "(setsid sleep 60.@mark@ &) &",
    "sleep 60.@mark@ & disown",
    "bash -c 'trap \"\" TERM HUP INT; sleep 60.@mark@; sleep 60.@mark@' &",
    "python3 -c \"import os, time; os.fork() or (os.setsid(), os.fork() or os.execlp('sleep', 'sleep', '60.@mark@'))\"",
    "sleep 60.@mark@ & kill -STOP $!",
    "for i in 1 2 3 4; do (sleep 60.@mark@ &) ; done",
    "bash -c 'while :; do sleep 0.05; : @mark@; done' & disown",
    "exec 0</dev/null >/dev/null 2>&1; (trap '' HUP TERM; exec sleep 60.@mark@) &",
    "nohup setsid bash -c 'sleep 60.@mark@' & sleep 0.05; exit 0",
    "sleep 60.@mark@ & kill -9 $$",
    "setsid bash -c 'kill -9 $PPID; sleep 60.@mark@' & sleep 0.1",
    'perl -e \'fork && exit; setpgrp; fork && exit; exec "sleep", "60.@mark@"\'',
    "(sleep 60.@mark@ & kill -9 $PPID) & sleep 0.1",
    "python3 -c \"import ctypes, os; ctypes.CDLL(None).prctl(36, 1); os.fork() or os.execlp('sleep', 'sleep', '60.@mark@')\"",
    "env -i setsid -f sleep 60.@mark@",
    "coproc sleep 60.@mark@; exit",
)

BOMBS = (
    "head -c 20M /dev/zero > big",
    "dd if=/dev/zero of=big bs=1M count=20",
    "truncate -s 20M big",
    "fallocate -l 20M big",
    "python3 -c \"open('big', 'wb').truncate(20 << 20)\"",
    "python3 -c \"f = open('big', 'wb'); f.seek(20 << 20); f.write(b'x')\"",
    "yes | head -c 20M > big",
    "head -c 20M /dev/zero > /tmp/big",
    "head -c 20M /dev/zero > /var/tmp/big",
    "head -c 20M /dev/zero > /dev/shm/big",
    "for i in 1 2 3 4; do head -c 5M /dev/zero > /tmp/big$i; done",
    "head -c 20M /dev/zero | split -b 10M - /tmp/part",
    "for i in $(seq 600); do sleep 2 & done; wait",
    'python3 -c "import os, time\nfor i in range(600):\n    if os.fork() == 0: time.sleep(2); os._exit(0)\ntime.sleep(0.4)"',
    "f() { [ $1 = 0 ] && sleep 2 || { f $(($1-1)) & f $(($1-1)) & wait; }; }; f 9",
    "perl -e 'for (1..600) { if (!fork) { sleep 2; exit } } select undef, undef, undef, 0.4'",
)

_IOCTL = "import fcntl, termios, os; "

TERMINAL = (
    f"python3 -c \"{_IOCTL}t = os.open('/dev/tty', os.O_RDWR); [fcntl.ioctl(t, termios.TIOCSTI, bytes([c])) for c in b'id\\n']\"",
    f"python3 -c \"{_IOCTL}t = os.open('@tty@', os.O_RDWR); [fcntl.ioctl(t, termios.TIOCSTI, bytes([c])) for c in b'id\\n']\"",
    'perl -e \'open T, "+<", "/dev/tty"; ioctl(T, 0x5412, $_) for split //, "id\\n"\'',
    "echo evil > /dev/tty",
    "printf '\\033]0;evil\\007' > /dev/tty",
    "echo evil > @tty@",
    "stty -F /dev/tty -echo",
    "stty -F @tty@ raw",
    "stty -F @tty@ rows 5 cols 5",
    "chmod 666 @tty@",
    "for t in /dev/pts/[0-9]*; do echo evil > $t; done",
    "python3 -c \"import os; os.write(os.open('/dev/tty', os.O_WRONLY), b'evil')\"",
    "echo evil > /proc/@agent@/fd/0; for n in /proc/@agent@/fd/*; do case $(readlink $n) in *pts*) echo evil > $n;; esac; done",
    "script -qc 'echo evil > @tty@' /dev/null",
    "setsid bash -c 'echo evil > @tty@'; sleep 0.05",
)

ATTACKS: list[Attack] = [
    *attacks("other-processes-harm", Effect.PROCESS, HARM),
    *attacks("survivors", Effect.SURVIVOR, SURVIVORS),
    *attacks("bombs", Effect.RESOURCES, BOMBS),
    *attacks("terminal", Effect.TERMINAL, TERMINAL),
]
