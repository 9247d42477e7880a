"""Reports on a session: usage, context window, decisions, prompts; also search and export."""

from __future__ import annotations

import asyncio
import sys

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from outlast.app.sessions.context_usage import context_use
from outlast.app.settings import whole_environment
from outlast.core.errors import OutlastError
from outlast.core.usage import ModelUsage
from outlast.doors.repl.commands.port import ReplCommand
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.render.renderables import rows
from outlast.doors.repl.render.status import tokens
from outlast.doors.repl.render.tool_call_line import one_line
from outlast.doors.terminal_text import output, readable

BAR = 40
NEWEST = 30


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, show_header=True, header_style="dim", padding=(0, 2, 0, 0))
    for n, column in enumerate(columns):
        table.add_column(column, justify="left" if n == 0 else "right")
    return table


async def usage(controller: ReplController, arguments: str) -> None:
    spent = controller.session.state.usage
    table = _table("model", "input", "output", "cached", "cost")
    for name, one in spent.models.items():
        table.add_row(
            readable(name), f"{one.input_tokens:,}", f"{one.output_tokens:,}", f"{one.cache_read_tokens:,}", _cost(one)
        )
    total = spent.total
    table.add_row(
        "all", f"{total.input_tokens:,}", f"{total.output_tokens:,}", f"{total.cache_read_tokens:,}", _cost(total)
    )
    controller.put(Padding(table, (0, 0, 0, 2)))
    numbers = ((spent.turns, "turn"), (spent.replies, "reply"), (spent.tool_calls, "tool call"))
    controller.say(", ".join(_counted(number, noun) for number, noun in numbers), "dim")


def _counted(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun.removesuffix('y')}{'ies' if noun.endswith('y') else 's'}"


def _cost(spent: ModelUsage) -> str:
    known = f"${spent.cost_micros / 1e6:.4f}"
    return known if not spent.unpriced else f"{known} and {spent.unpriced} of unknown price"


async def context(controller: ReplController, arguments: str) -> None:
    found = context_use(
        controller.repl_session.agent.turn_setup(), controller.session.messages, controller.session.state
    )
    if found.window:
        filled = min(BAR, round(found.used / found.window * BAR))
        bar = Text("  " + "█" * filled, style="cyan")
        bar.append("░" * (BAR - filled), style="dim")
        bar.append(f"  about {tokens(found.used)} of {tokens(found.window)} tokens ({found.used / found.window:.0%})")
        controller.put(bar)
    table = _table("in the window", "messages", "tokens, estimated")
    table.add_row("system prompt", "", f"{found.system:,}")
    table.add_row("tools", "", f"{found.tools:,}")
    for role, (count, size) in found.by_role.items():
        table.add_row(role, str(count), f"{size:,}")
    controller.put(Padding(table, (0, 0, 0, 2)))
    if found.window:
        controller.say(f"window of {found.window:,} tokens, source: {found.source}", "dim")
    if found.compacts_at:
        controller.say(
            f"at {tokens(found.compacts_at)} tokens old outputs are pruned and older messages summarised; "
            "/compact does it now",
            "dim",
        )


async def timeline(controller: ReplController, arguments: str) -> None:
    """Show the latest decisions and their reasons."""
    entries = controller.session.workflow_timeline[-NEWEST:]
    if not entries:
        controller.say("no decisions in this session yet", "dim")
    lines = [
        (
            entry.timestamp[11:19],
            entry.mode,
            Text.assemble((f"{entry.reason_code}  ", "cyan"), one_line(entry.summary, 200)),
        )
        for entry in entries
    ]
    if lines:
        controller.put(rows(lines, "dim", "dim", ""))


async def ledger(controller: ReplController, arguments: str) -> None:
    found = controller.session.workflow_ledger
    lists = (
        ("assumptions", found.assumptions),
        ("acceptance anchors", found.acceptance_anchors),
        ("decision boundaries", found.decision_boundaries),
    )
    if not any(items for _, items in lists):
        controller.say("the ledger is empty: nothing was assumed, anchored or bounded yet", "dim")
    for name, items in lists:
        if items:
            controller.put(Text(f"  {name}", style="bold"))
            controller.put(rows([(item.status, one_line(item.text, 400)) for item in items], "dim", ""))


async def prompts(controller: ReplController, arguments: str) -> None:
    """List the system prompts that were sent; with a number, show that prompt in full."""
    found = controller.session.prompt_history
    if not found:
        controller.say("no prompt was sent yet", "dim")
        return
    if arguments.strip().isdecimal():
        n = int(arguments)
        if not 1 <= n <= len(found):
            raise OutlastError(f"there are prompts 1 to {len(found)}")
        controller.put(Padding(Text(readable(found[n - 1].content)), (0, 0, 0, 2)))
        return
    lines = [
        (str(n), one.timestamp, one.workflow_mode, f"{one.permission_mode}, {len(one.content):,} characters")
        for n, one in enumerate(found, 1)
    ]
    controller.put(rows(lines, "cyan", "dim", "dim", "dim"))
    controller.say("/prompts N shows one", "dim")


# ---- commands that run the command line -------------------------------------------------------------------------


async def search(controller: ReplController, arguments: str) -> None:
    if not arguments.strip():
        raise OutlastError("give the words to look for: /search WORDS")
    await _command_line(controller, "sessions", "search", arguments.strip())


async def export(controller: ReplController, arguments: str) -> None:
    """Export to a file; its extension (.md, .html or .jsonl) selects the format."""
    if not controller.session.exists:
        raise OutlastError("this session has no messages yet")
    name = arguments.strip() or f"outlast-{controller.session.session_id[:8]}.md"
    form = name.rpartition(".")[2]
    if form not in {"md", "html", "jsonl"}:
        raise OutlastError("give a file that ends in .md, .html or .jsonl: /export FILE")
    path = controller.repl_session.agent.project_root / name
    done = await _command_line(
        controller, "sessions", "export", controller.session.session_id, "--format", form, "-o", str(path)
    )
    if done == 0:
        controller.say(f"written to {path}", "dim")


async def _command_line(controller: ReplController, *words: str) -> int:
    """Run an `outlast` command on the same store in a subprocess, show its output and return its exit code."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "outlast",
        *words,
        cwd=controller.repl_session.agent.project_root,
        env={**whole_environment(), "OUTLAST_STORE": controller.repl_session.agent.store.url},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    text = output(said.decode("utf-8", "replace")).rstrip()
    if text:
        controller.put(Padding(Text(text), (0, 0, 0, 2)))
    return process.returncode or 0


REPORTS = (
    ReplCommand("usage", "show tokens and cost of this session", usage),
    ReplCommand("context", "show what fills the model's window", context),
    ReplCommand("timeline", "show the decisions and their reasons", timeline),
    ReplCommand("ledger", "show assumptions, anchors and boundaries of the work", ledger),
    ReplCommand("prompts", "show the system prompts that were sent", prompts, "[N]"),
    ReplCommand("search", "search all sessions", search, "WORDS"),
    ReplCommand("export", "write this session into a .md, .html or .jsonl file", export, "[FILE]"),
)
