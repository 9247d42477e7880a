"""A strict tokenizer for shell text: words, redirections and the operators between simple commands, nothing else.

It is the smaller of two parsers. `grammar_check` parses the same text with a real grammar, and a command counts as
understood only if both find the same words in the same places: where two parsers differ, bash may differ from both.
The tokenizer rejects what it does not know, with a reason, and never guesses.
"""

from __future__ import annotations

import unicodedata

import msgspec

MAX_CHARS = 65_536
"""Longer commands always need a question."""


def names(text: str) -> frozenset[str]:
    """Split the text of a table into its words."""
    return frozenset(text.split())


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-^!")
_GLOB = frozenset("*?[]")
_BEFORE_TILDE = _PLAIN - frozenset("=:,/.-!+@%")
_BLANK = frozenset(" \t")
_RESERVED = names("if then elif else fi for while until do done case esac select function time coproc in [[ ]] { }")
_LITERAL_DOLLAR = frozenset('" |)/\n')  # in double quotes, `$` before one of these is literal


class NotUnderstood(Exception):
    """Why a text cannot be judged. The message completes the sentence "it ..."."""


class Word(msgspec.Struct, frozen=True):
    """A word as the program receives it. `glob`: it has an unquoted pattern; `quoted`: some part of it was quoted;
    `status`: it has `$?`, which stands as `0` in `text` although the shell will put another number there."""

    text: str
    start: int
    end: int
    glob: bool = False
    quoted: bool = False
    status: bool = False


class Redirect(msgspec.Struct, frozen=True):
    """`mode` is `<`, `>` or `&` (another descriptor of this command, by number)."""

    mode: str
    target: Word


class Simple(msgspec.Struct, frozen=True):
    """One simple command. `piped`: it runs in its own subshell, concurrently with another command."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    piped: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)

    @property
    def span(self) -> tuple[int, int]:
        return self.words[0].start, self.words[-1].end


def scan(text: str) -> list[Simple]:
    """Return the simple commands of a text, in order. Raises NotUnderstood if the text contains anything else."""
    if len(text) > MAX_CHARS:
        raise NotUnderstood(f"is longer than {MAX_CHARS} characters")
    for char in text:
        if _is_deceptive(char):
            raise NotUnderstood(f"has the character U+{ord(char):04X}, which does not show or misleads")
    return _Scanner(text).commands()


def _is_deceptive(char: str) -> bool:
    if char in "\n\t" or " " <= char <= "~":
        return False
    return unicodedata.category(char)[0] in "CZ" or unicodedata.combining(char) != 0


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[Simple] = []
        self.words: list[Word] = []
        self.redirects: list[Redirect] = []
        self.operator = ""
        self.negated = False
        self.status = False

    def commands(self) -> list[Simple]:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _BLANK:
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char in ";|&\n":
                self._operator()
            elif char in "<>":
                self._redirect("")
            else:
                self._word()
        self._end("")
        if self.operator in {"&&", "||", "|"}:
            raise NotUnderstood("ends with an operator")
        if not self.found:
            raise NotUnderstood("is empty")
        return self.found

    # --- between commands

    def _operator(self) -> None:
        if self.text.startswith("&>", self.at):
            self._redirect("&")
            return
        char = self.text[self.at]
        operator = self.text[self.at : self.at + 2] if self.text[self.at : self.at + 2] in {"&&", "||"} else char
        if operator == "&" or self.text[self.at : self.at + 2] in {";;", ";&", "|&"}:
            raise NotUnderstood("uses an operator other than && || | ; (such as & for the background)")
        self.at += len(operator)
        if operator == "\n" and not self.words and not self.redirects and not self.negated:
            return  # an empty line, or a line break after an operator
        self._end(operator)

    def _end(self, operator: str) -> None:
        if not self.words:
            if self.redirects or self.negated or operator not in {"", "\n"}:
                raise NotUnderstood("has an operator or a redirection without a command")
            return
        piped = operator == "|" or self.operator == "|"
        self.found.append(Simple(tuple(self.words), tuple(self.redirects), piped))
        self.words, self.redirects, self.operator, self.negated = [], [], operator, False

    # --- redirections

    def _redirect(self, descriptor: str) -> None:
        rest = self.text[self.at : self.at + 3]
        for sign in ("&>>", "&>", ">>", ">|", ">&", ">", "<"):
            if rest.startswith(sign):
                break
        if rest.startswith(("<<", "<>", "<&", "<(", ">(")) or (descriptor not in {"", "1", "2", "&"} and sign != "<"):
            raise NotUnderstood("has a redirection other than to or from a file (here-document, process, descriptor)")
        if sign == "<" and descriptor not in {"", "0"}:
            raise NotUnderstood("opens a descriptor of its own")
        self.at += len(sign)
        while self.text[self.at : self.at + 1] in _BLANK and self.at < len(self.text):
            self.at += 1
        if self.text[self.at : self.at + 1] in {"", "\n", ";", "|", "&", "<", ">", "(", ")", "#"}:
            raise NotUnderstood("has a redirection without a target")
        target = self._read()
        if target.glob or target.status:
            raise NotUnderstood("redirects to a pattern, or to a name that is only known when it runs ($?)")
        if sign == ">&":
            if self.text[target.start : target.end] not in {"1", "2"}:
                raise NotUnderstood("duplicates a descriptor other than 1 or 2")
            self.redirects.append(Redirect("&", target))
        else:
            self.redirects.append(Redirect("<" if sign == "<" else ">", target))

    # --- words

    def _word(self) -> None:
        word = self._read()
        raw = self.text[word.start : word.end]
        if raw.isdigit() and self.text[self.at : self.at + 1] in {"<", ">"}:
            self._redirect(raw)
            return
        if not self.words:
            if raw == "!":
                if self.negated or self.redirects:
                    raise NotUnderstood("negates more than once")
                self.negated = True
                return
            if raw in _RESERVED:
                raise NotUnderstood(f"uses the shell's '{raw}'")
            if "=" in word.text:
                raise NotUnderstood("sets a variable")
            if (word.glob and raw != "[") or word.status:
                raise NotUnderstood("names its program by a pattern, or by $?")
        self.words.append(word)

    def _read(self) -> Word:
        start, parts, glob, quoted = self.at, list[str](), False, False
        self.status = False
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _PLAIN or char in _GLOB or (char == "#" and self.at > start):
                parts.append(char)
                glob = glob or char in _GLOB
                self.at += 1
            elif char in "'\"\\":
                quoted = True
                parts.append(self._quoted(char))
            elif self.text.startswith("$?", self.at):
                parts.append(self._exit_status())
            elif char in " \t\n;|&<>":
                break
            elif char == "~" and self.at > start and self.text[self.at - 1] in _BEFORE_TILDE:
                parts.append(char)  # as in HEAD~1; `~` is a home folder only at the start, or after = and :
                self.at += 1
            else:
                raise NotUnderstood(_why(char))
        pattern = glob and self.text[start : self.at] not in {"[", "]"}
        return Word("".join(parts), start, self.at, pattern, quoted, self.status)

    def _exit_status(self) -> str:
        self.status = True
        self.at += 2
        return "0"

    def _quoted(self, quote: str) -> str:
        if quote == "\\":
            following = self.text[self.at + 1 : self.at + 2]
            if not following or following == "\n":
                raise NotUnderstood("ends with a backslash, or continues a word on the next line")
            self.at += 2
            return following
        if quote == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise NotUnderstood("has a quote that is not closed")
            inside = self.text[self.at + 1 : end]
            self.at = end + 1
            return inside
        return self._double()

    def _double(self) -> str:
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            char, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if char == '"':
                self.at += 1
                return "".join(parts)
            if char == "\\" and following and following in '$`"\\\n':
                if following == "\n":
                    raise NotUnderstood("continues a quoted word on the next line")
                parts.append(following)
                self.at += 2
            elif char == "`" or (char == "$" and following not in _LITERAL_DOLLAR and following != "?"):
                raise NotUnderstood(_why(char))
            elif char == "$" and following == "?":
                parts.append(self._exit_status())
            else:
                parts.append(char)
                self.at += 1
        raise NotUnderstood("has a quote that is not closed")


def _why(char: str) -> str:
    if char == "$":
        return "expands a variable or runs a substitution ($)"
    if char == "`":
        return "runs a substitution (`)"
    if char == "~":
        return "uses ~ for a home folder"
    if char in "(){}":
        return "uses a subshell, a group, a function or a brace expansion"
    return f"has an unquoted '{char}'" if char.isascii() else f"has an unquoted character outside ASCII ({char})"
