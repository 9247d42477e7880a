"""All everyday commands."""

from tests.sandbox.friction.commands import (
    files_and_text,
    git_work,
    network_work,
    project_work,
    python_work,
    shell_syntax,
)
from tests.sandbox.friction.everyday import Everyday

CORPUS: tuple[Everyday, ...] = (
    *project_work.COMMANDS,
    *git_work.COMMANDS,
    *shell_syntax.COMMANDS,
    *python_work.COMMANDS,
    *files_and_text.COMMANDS,
    *network_work.COMMANDS,
)
