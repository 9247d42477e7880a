"""The attacks, by class."""

from tests.sandbox.attacks import detours, files, git_files, kernel, network, planted, processes, secrets_read, sessions

ATTACKS = (
    *files.ATTACKS, *secrets_read.ATTACKS, *network.ATTACKS, *processes.ATTACKS, *kernel.ATTACKS, *git_files.ATTACKS,
    *planted.ATTACKS, *sessions.ATTACKS, *detours.ATTACKS,
)  # fmt: skip
