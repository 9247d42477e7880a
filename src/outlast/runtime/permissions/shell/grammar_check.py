"""Second parser for shell text, by tree-sitter-bash: confirms what `tokenizer` found.

A text that counts as understood may contain only a few kinds of nodes. The tree is walked with an explicit stack, so a
deep or long text costs linear time and never exceeds the recursion limit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, Simple

Span = tuple[int, int]

_STATEMENTS = frozenset({"program", "list", "pipeline", "redirected_statement", "negated_command"})
_TOKENS = frozenset({"&&", "||", "|", ";", "\n", "!"})
_WORDS = frozenset({"word", "number", "string", "raw_string", "concatenation", "simple_expansion"})
_REDIRECTS = frozenset({">", ">>", ">|", ">&", "&>", "&>>", "<", "file_descriptor"})

_lock = threading.Lock()


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def parse(text: str) -> Node:
    with _lock:  # a parser is not thread-safe
        return _parser().parse(text.encode("utf-8", "surrogatepass")).root_node


def confirm(text: str, commands: list[Simple]) -> None:
    """Return if the grammar finds the same words in the same places; raise NotUnderstood if it does not."""
    root = parse(text)
    if root.has_error:
        raise NotUnderstood("is not well-formed shell")
    groups, targets = _found(root)
    place = _Places(text)
    expected = [
        [(place(c.span[0]), place(c.span[1]))]
        if c.argv[0] == "["
        else [(place(word.start), place(word.end)) for word in c.words]
        for c in commands
    ]
    redirected = sorted((place(r.target.start), place(r.target.end)) for c in commands for r in c.redirects)
    if groups != expected or sorted(targets) != redirected:
        raise NotUnderstood("can be read in more than one way")


class _Places:
    """Converts character positions to byte positions."""

    def __init__(self, text: str) -> None:
        self._bytes: list[int] | None = None
        if not text.isascii():
            self._bytes = [0]
            for char in text:
                self._bytes.append(self._bytes[-1] + len(char.encode("utf-8", "surrogatepass")))

    def __call__(self, at: int) -> int:
        return at if self._bytes is None else self._bytes[at]


def _found(root: Node) -> tuple[list[list[Span]], list[Span]]:
    groups: list[list[Span]] = []
    targets: list[Span] = []
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type in _STATEMENTS:
            pending.extend(reversed(node.children))
        elif node.type == "command":
            groups.append(list(_words(node, targets)))
        elif node.type == "test_command" and node.children[0].type == "[":
            groups.append([node.byte_range])
        elif node.type == "file_redirect":
            targets.extend(_targets(node))
        elif node.type not in _TOKENS and node.type != "comment":
            raise NotUnderstood(f"uses a construct that is not judged ({node.type})")
    return groups, targets


def _words(command: Node, targets: list[Span]) -> Iterator[Span]:
    for child in command.children:
        if child.type == "file_redirect":
            targets.extend(_targets(child))
        elif child.type == "command_name" or child.type in _WORDS:
            yield child.byte_range
        else:
            raise NotUnderstood(f"uses a construct that is not judged ({child.type})")


def _targets(redirect: Node) -> Iterator[Span]:
    for child in redirect.children:
        if child.type in _WORDS:
            yield child.byte_range
        elif child.type not in _REDIRECTS:
            raise NotUnderstood(f"uses a redirection that is not judged ({child.type})")
