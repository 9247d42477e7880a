"""Key bindings of the input line and of the question panel."""

from __future__ import annotations

import time
from collections.abc import Callable

from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from outlast.doors.repl.approval_panel import LETTERS
from outlast.doors.repl.commands.history import rewind
from outlast.doors.repl.commands.model_and_permissions import next_mode
from outlast.doors.repl.commands.turn_control import expand
from outlast.doors.repl.controller import ReplController

AGAIN_SECONDS = 1.0


class KeyMap:
    """Key bindings that act on a controller. `submit` receives the typed text, `interrupt` handles Ctrl-C."""

    def __init__(
        self, controller: ReplController, submit: Callable[[str], None], interrupt: Callable[[], None]
    ) -> None:
        self.controller = controller
        self.submit = submit
        self.interrupt = interrupt
        self.bindings = KeyBindings()
        self._typing()
        self._acting()
        self._answering()

    def _typing(self) -> None:
        keys, controller = self.bindings, self.controller
        typing = Condition(lambda: not controller.panel.focused) & ~is_searching

        @keys.add("enter", filter=typing)
        @keys.add("c-j", filter=typing)  # Enter typed before the terminal was in raw mode
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
                buffer.complete_state = None
            elif buffer.document.current_line_before_cursor.endswith("\\"):
                buffer.delete_before_cursor(1)
                buffer.insert_text("\n")
            else:
                text = buffer.text
                buffer.append_to_history()
                buffer.reset()
                self.submit(text)

        @keys.add("escape", "enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("up", filter=typing)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.auto_up()

        @keys.add("down", filter=typing)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.auto_down()

        @keys.add("tab", filter=typing)
        def _(event: KeyPressEvent) -> None:
            if controller.panel.asked is not None:
                controller.screen.focus_panel(True)
            elif event.current_buffer.complete_state is not None:
                event.current_buffer.complete_next()
            else:
                event.current_buffer.start_completion(select_first=True)

        @keys.add("c-x", "c-e", filter=typing)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.open_in_editor()

        @keys.add("c-v", filter=typing)
        def _(event: KeyPressEvent) -> None:
            controller.run(controller.paste_picture())

    def _acting(self) -> None:
        keys, controller = self.bindings, self.controller

        @keys.add("c-c", filter=~is_searching)  # in a search, Ctrl-C leaves the search
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            self.interrupt()

        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            if controller.screen.input.text and not controller.panel.focused:
                event.current_buffer.delete()
            else:
                event.app.exit(result=0)

        @keys.add("s-tab")
        def _(event: KeyPressEvent) -> None:
            controller.run(next_mode(controller))

        @keys.add("c-o")
        def _(event: KeyPressEvent) -> None:
            controller.run(expand(controller, ""))

        @keys.add("escape", "escape")
        def _(event: KeyPressEvent) -> None:
            controller.run(rewind(controller, ""))

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            if controller.work.is_running:
                controller.say("a turn is running and would be suspended; Ctrl-C stops it first")
            else:
                event.app.suspend_to_background()

        @keys.add("c-l")
        def _(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

    def _answering(self) -> None:
        keys, controller = self.bindings, self.controller
        asked = Condition(lambda: controller.panel.focused and controller.panel.asked is not None)

        @keys.add("enter", filter=asked, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._answer(controller.panel.at)

        @keys.add("left", filter=asked)
        @keys.add("up", filter=asked)
        def _(event: KeyPressEvent) -> None:
            controller.panel.move(-1)

        @keys.add("right", filter=asked)
        @keys.add("down", filter=asked)
        @keys.add("tab", filter=asked)
        def _(event: KeyPressEvent) -> None:
            controller.panel.move(1)

        @keys.add("pageup", filter=asked)
        def _(event: KeyPressEvent) -> None:
            controller.panel.page(-1)

        @keys.add("pagedown", filter=asked)
        def _(event: KeyPressEvent) -> None:
            controller.panel.page(1)

        @keys.add(Keys.BracketedPaste, filter=asked)
        def _(event: KeyPressEvent) -> None:
            self._meant_for_the_line(event.data)

        @keys.add(Keys.Any, filter=asked)
        def _(event: KeyPressEvent) -> None:
            self._letter(event.data)

    def _answer(self, n: int) -> None:
        asked = self.controller.panel.asked
        if asked is not None and n < len(asked.choices):
            self.controller.run(self.controller.answer(asked.choices[n]))

    def _letter(self, letter: str) -> None:
        """A number answers, `y` and `n` answer an approval. Other text goes to the input line and approves nothing."""
        asked = self.controller.panel.asked
        if asked is None:
            return
        if letter.isdecimal() and 1 <= int(letter) <= len(asked.choices):
            self._answer(int(letter) - 1)
        elif asked.is_approval and letter in LETTERS:
            self._answer(asked.choices.index(LETTERS[letter]))
        elif letter.isprintable():
            self._meant_for_the_line(letter)

    def _meant_for_the_line(self, text: str) -> None:
        self.controller.screen.focus_panel(False)
        self.controller.screen.input.insert_text(text.replace("\r\n", "\n").replace("\r", "\n"))


class DoublePress:
    """Detects two presses within a second."""

    def __init__(self) -> None:
        self._last = 0.0

    def again(self) -> bool:
        now = time.monotonic()
        found, self._last = now - self._last < AGAIN_SECONDS, now
        return found

    def forget(self) -> None:
        """Reset: another action happened in between."""
        self._last = 0.0
