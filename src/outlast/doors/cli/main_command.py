"""`outlast [PROMPT]`: opens the REPL in a terminal; runs one turn and prints its answer without one, or with `-p`."""

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from importlib import import_module
from inspect import signature
from typing import Annotated

import typer

from outlast._version import __version__
from outlast.app.settings import variables
from outlast.core.workflow_mode import Workflow
from outlast.doors.cli.command_table import ABOUT, COMMANDS
from outlast.doors.cli.options import NetworkOption, SandboxOption, Store, session_ids
from outlast.runtime.permissions.mode import PermissionMode as Mode

NEARLY = 0.8
PICK = "?"
"""Value of `--resume` without an id: the user chooses a session."""


class ReasoningLevel(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class ToolDialect(StrEnum):
    NATIVE = "native"
    TEXT = "text"
    AUTO = "auto"


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


def _commands() -> str:
    """The list of commands for the end of the help; \\b keeps its line breaks."""
    lines = [f"  {name:<9} {ABOUT.get(name, '')}" for name in COMMANDS]
    last = "Shell completion: outlast --install-completion"
    return "\n".join(["\b", "Commands (outlast COMMAND --help):", *lines, "", "\b", last])


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"outlast {__version__}")
        raise typer.Exit


Prompt = Annotated[str | None, typer.Argument(metavar="PROMPT", help="The task, in quotes.")]
Print = Annotated[bool, typer.Option("-p", "--print", help="Run one turn, print the answer, no REPL.")]
Continue = Annotated[bool, typer.Option("-c", "--continue", help="Continue the newest session of this project.")]
Resume = Annotated[
    str | None,
    typer.Option(
        "-r",
        "--resume",
        metavar="[ID]",
        autocompletion=session_ids,
        help="Resume that session; without ID, choose one.",
    ),
]
Session = Annotated[
    str | None, typer.Option("--session", metavar="ID", autocompletion=session_ids, help="That session.")
]
Fork = Annotated[bool, typer.Option("--fork", help="Continue in a fork; the session itself does not change.")]
Model = Annotated[
    str | None, typer.Option("--model", metavar="P:M", help="provider:model, local, scripted:FILE, or none.")
]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="Base URL of the provider, usually ending in /v1."),
]
PermissionMode = Annotated[
    Mode | None,
    typer.Option(
        "--permission-mode", metavar="M", help="read-only, workspace-write, prompt, danger-full-access, allow."
    ),
]
Allow = Annotated[
    list[str] | None, typer.Option("--allow", metavar="RULE", help="Allow this, such as 'bash(npm test)' (repeatable).")
]
AddDir = Annotated[
    list[str] | None, typer.Option("--add-dir", metavar="D", help="Another folder to work in (repeatable).")
]
MaxSteps = Annotated[
    int | None, typer.Option("--max-steps", metavar="N", min=1, help="Most replies per turn; no limit by default.")
]
Dialect = Annotated[
    ToolDialect | None,
    typer.Option("--dialect", metavar="D", help="How tools are called: native, text, or auto (your settings')."),
]
Plan = Annotated[bool, typer.Option("--plan", help="Start in plan mode: only reading until you approve a plan.")]
WorkflowName = Annotated[
    Workflow | None,
    typer.Option("--workflow", metavar="W", help="plain (the model leads) or guided (plans, checks, verification)."),
]
PersonaName = Annotated[str | None, typer.Option("--persona", metavar="NAME", help="Name of the persona.")]
Effort = Annotated[
    ReasoningLevel | None, typer.Option("--effort", metavar="LEVEL", help="Reasoning effort: low, medium or high.")
]
Format = Annotated[
    OutputFormat, typer.Option("--output-format", help="Output of -p; stream-json prints one event per line.")
]
Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
]

app = typer.Typer(name="outlast", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command("outlast", epilog=_commands(), context_settings={"allow_extra_args": True})
def outlast(
    context: typer.Context,
    prompt: Prompt = None,
    print_only: Print = False,
    continue_newest: Continue = False,
    resume: Resume = None,
    session: Session = None,
    fork: Fork = False,
    model: Model = None,
    base_url: BaseUrl = None,
    permission_mode: PermissionMode = None,
    allow: Allow = None,
    add_dir: AddDir = None,
    max_steps: MaxSteps = None,
    dialect: Dialect = None,
    sandbox: SandboxOption = None,
    network: NetworkOption = None,
    plan: Plan = False,
    workflow: WorkflowName = None,
    persona: PersonaName = None,
    effort: Effort = None,
    output_format: Format = OutputFormat.TEXT,
    store: Store = None,
    version: Version = False,
) -> None:
    """A coding agent whose sessions cannot be lost.

    In a terminal it opens a session to talk in; without one, or with -p, it answers once and leaves.
    """
    given = locals()
    if context.args:
        raise typer.BadParameter(_too_many(prompt or "", context.args))
    _refuse_contradictions(continue_newest, resume, session, fork=fork)
    if prompt is not None and not print_only:
        _refuse_misspelled(prompt)
    from outlast.doors.repl.launch import LaunchOptions

    given["resume"] = session or resume
    start = LaunchOptions(**{name: given[name] for name in LaunchOptions.__struct_fields__})
    if print_only or output_format is not OutputFormat.TEXT or not _in_a_terminal():
        from outlast.doors.repl.print_mode import answer_once

        raise typer.Exit(answer_once(start, output_format.value))
    from outlast.doors.repl.repl import converse

    raise typer.Exit(converse(start))


def _refuse_contradictions(continue_newest: bool, resume: str | None, session: str | None, *, fork: bool) -> None:
    named = [continue_newest, resume is not None, session is not None].count(True)
    if named > 1:
        raise typer.BadParameter("--continue, --resume and --session exclude each other; give one of them")
    if fork and not named:
        raise typer.BadParameter("--fork needs --continue, --resume or --session, which name the session to fork")


def _refuse_misspelled(prompt: str) -> None:
    """Refuse a single word that is nearly a command: it was meant as one, and should not be sent to the model."""
    if prompt in COMMANDS:
        raise typer.BadParameter(f"a command comes before its options: outlast {prompt}; see outlast {prompt} --help")
    near = get_close_matches(prompt, list(COMMANDS), 1, NEARLY)
    if near:
        raise typer.BadParameter(
            f"unknown command '{prompt}'; did you mean '{near[0]}'? To send it to the model: outlast -p '{prompt}'"
        )


def _in_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _too_many(prompt: str, more: Sequence[str]) -> str:
    if prompt in COMMANDS:
        return f"a command comes first: outlast {prompt} {' '.join(more)} ..."
    near = get_close_matches(prompt, list(COMMANDS), 1)
    hint = f"; did you mean the command '{near[0]}'?" if near else ""
    return f"put the whole prompt in quotes; '{more[0]}' is outside of them{hint}"


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """Insert the placeholder for the id that `-r` may omit: `-r` alone lets the user choose."""
    words = list(arguments)
    for n, word in enumerate(words):
        if word == "--":
            break
        if word in ("-r", "--resume"):
            following = words[n + 1] if n + 1 < len(words) else "-"
            if following.startswith("-") or len(following.split()) != 1:
                return [*words[: n + 1], PICK, *words[n + 1 :]]
    return words


# ---- completion in the user's shell ---------------------------------------------------------------------------------

_ASKED_BY_SHELL = "_OUTLAST_COMPLETE"


def completing() -> bool:
    """Whether a shell requests completions."""
    return bool(variables([_ASKED_BY_SHELL]))


def whole(commands: Mapping[str, str]) -> typer.Typer:
    """Every command and option in one tree, for shell completion and its installation."""
    tree = typer.Typer(name="outlast", rich_markup_mode=None, pretty_exceptions_enable=False)

    def options(**_: object) -> None:
        """A coding agent whose sessions cannot be lost."""

    taken = signature(outlast)
    vars(options)["__signature__"] = taken.replace(
        parameters=[taken.parameters[name] for name in taken.parameters if name not in ("context", "prompt", "version")]
    )
    tree.callback(invoke_without_command=True)(options)
    for module in dict.fromkeys(commands.values()):
        tree.add_typer(import_module(module).app)
    return tree
