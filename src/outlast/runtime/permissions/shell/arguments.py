"""Parses a program's arguments by its grammar: its options, the kinds of their values, and its operands.

A program is judged by its arguments. An option that is not in the program's table is not understood, so the user is
asked: the tables list what is known to be harmless, never what is known to be harmful.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, Word


class OptionKind(StrEnum):
    """What an option value or an operand means to the policy."""

    TEXT = "text"
    READ = "read"
    NONE = "none"


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    """Short options: `flags` take no value, `valued` and `reads` take one, `attached` one in the same word or none.

    `longs` maps long names to `""` (no value), `"?"` (optional, after =), `"="` (text) or `"r"` (a path that is read).
    `pattern`: the first operand is an expression unless an option in `expressions` gave one. `digits`: `-5` is an
    option. `loose`: no option of this program can do harm, so a pattern such as `*.py` may expand to anything.
    """

    flags: str = ""
    valued: str = ""
    reads: str = ""
    attached: str = ""
    longs: dict[str, str] = {}
    operands: OptionKind = OptionKind.READ
    least: int = 0
    most: int | None = None
    pattern: bool = False
    expressions: frozenset[str] = frozenset()
    digits: bool = False
    loose: bool = False


class CommandArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Parsed arguments: options by name, in order; the paths they read; operands without the expression."""

    expression: str = ""
    options: tuple[tuple[str, str], ...]
    operands: tuple[Word, ...]
    reads: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names]


def grammar(
    flags: str = "",
    longs: str = "",
    *,
    valued: str = "",
    reads: str = "",
    attached: str = "",
    operands: OptionKind = OptionKind.READ,
    least: int = 0,
    most: int | None = None,
    pattern: bool = False,
    expressions: str = "",
    digits: bool = False,
    loose: bool = False,
) -> Grammar:
    """Build a grammar from table notation: `longs` is "name name=? name== name=r", with `==` for a required value."""
    named: dict[str, str] = {}
    for item in longs.split():
        name, _, kind = item.partition("=")
        named[name] = kind
    return Grammar(
        flags=flags,
        valued=valued,
        reads=reads,
        attached=attached,
        longs=named,
        operands=operands,
        least=least,
        most=most,
        pattern=pattern,
        expressions=frozenset(expressions.split()),
        digits=digits,
        loose=loose,
    )


def arguments(program: str, words: Sequence[Word], grammar: Grammar) -> CommandArguments:
    """Parse the arguments of a program by its grammar. Raises NotUnderstood if one does not fit."""
    return _ArgumentReader(program, words, grammar).read()


class _ArgumentReader:
    def __init__(self, program: str, words: Sequence[Word], grammar: Grammar) -> None:
        self.program, self.words, self.grammar = program, words, grammar
        self.at = 0
        self.options: list[tuple[str, str]] = []
        self.operands: list[Word] = []
        self.reads: list[Word] = []

    def read(self) -> CommandArguments:
        ended, expression = False, ""
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if not ended and word.text == "--":
                ended = True
            elif not ended and word.text.startswith("-") and word.text != "-":
                self._option(word)
            else:
                self._operand(word, ended)
        if self.grammar.pattern and not any(name in self.grammar.expressions for name, _ in self.options):
            if not self.operands or self.operands[0].glob:
                raise NotUnderstood(f"gives {self.program} no expression, or a pattern for one")
            expression = self.operands.pop(0).text
        self._count()
        return CommandArguments(
            expression=expression,
            options=tuple(self.options),
            operands=tuple(self.operands),
            reads=tuple(self.reads),
        )

    def _count(self) -> None:
        least, most = self.grammar.least, self.grammar.most
        if len(self.operands) < least or (most is not None and len(self.operands) > most):
            raise NotUnderstood(f"gives {self.program} a number of operands that is not judged")
        if most is not None and any(word.glob for word in self.operands):
            raise NotUnderstood(f"gives {self.program} a pattern, which may become more operands than it may have")
        if self.operands and self.grammar.operands is OptionKind.NONE:
            raise NotUnderstood(f"gives {self.program} operands")

    def _operand(self, word: Word, ended: bool) -> None:
        if word.glob and not self.grammar.loose and not ended and word.text[0] in "*?[":
            raise NotUnderstood(f"gives {self.program} a pattern that could become an option; write ./ before it")
        self.operands.append(word)

    def _option(self, word: Word) -> None:
        if word.glob:
            raise NotUnderstood(f"gives {self.program} an option with a pattern in it")
        if word.text.startswith("--"):
            self._long(word)
        elif self.grammar.digits and word.text[1:].isdecimal():
            self.options.append(("-", word.text[1:]))
        else:
            self._short(word)

    def _long(self, word: Word) -> None:
        name, equals, value = word.text[2:].partition("=")
        kind = self.grammar.longs.get(name)
        if kind is None or (equals and kind == ""):
            raise NotUnderstood(f"uses an option of {self.program} that is not judged ({word.text.partition('=')[0]})")
        if kind in {"=", "r"} and not equals:
            value = self._next(name)
        self._note(f"--{name}", value, word, read=kind == "r")

    def _short(self, word: Word) -> None:
        rest = word.text[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            if letter in self.grammar.flags:
                self._note(f"-{letter}", "", word, read=False)
            elif letter in self.grammar.attached:
                self._note(f"-{letter}", rest, word, read=False)
                return
            elif letter in self.grammar.valued or letter in self.grammar.reads:
                self._note(f"-{letter}", rest or self._next(letter), word, read=letter in self.grammar.reads)
                return
            else:
                raise NotUnderstood(f"uses an option of {self.program} that is not judged (-{letter})")

    def _next(self, name: str) -> str:
        if self.at >= len(self.words) or self.words[self.at].glob:
            raise NotUnderstood(f"gives the option {name} of {self.program} no value, or a pattern")
        self.at += 1
        return self.words[self.at - 1].text

    def _note(self, name: str, value: str, word: Word, *, read: bool) -> None:
        self.options.append((name, value))
        if read:
            self.reads.append(Word(value, word.start, word.end))
