"""What pages did while they were looked at: dialogs, errors, breaches of the policy, requests to other hosts."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request

MARK = "outlastScriptRan"
"""What every hostile text tries to set on `window`."""
QUIET = ("Failed to load resource", "net::ERR_")
"""What a browser says of a server that is away or refuses; pages are expected to bear it."""


class Watch:
    """Follows every tab of a browser profile."""

    def __init__(self, url: str) -> None:
        self._origin = url
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.marks: list[str] = []

    def follow(self, context: BrowserContext) -> None:
        context.add_init_script(
            f"""addEventListener('securitypolicyviolation', (event) =>
                console.error('POLICY ' + event.violatedDirective + ' ' + event.blockedURI));
            Object.defineProperty(window, '{MARK}', {{set() {{ console.error('MARK a script ran'); }}}});"""
        )
        context.on("page", self._page)
        context.on("request", self._request)

    def _page(self, page: Page) -> None:
        page.on("dialog", self._dialog)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(f"{error}"))

    def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        text = message.text
        if text.startswith("MARK"):
            self.marks.append(text)
        elif message.type in {"error", "warning"} and not any(quiet in text for quiet in QUIET):
            self.errors.append(f"{message.type}: {text}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in {"data", "blob", "about"}:
            return
        if f"{parts.scheme}://{parts.netloc}" != self._origin:
            self.elsewhere.append(request.url)

    def assert_clean(self) -> None:
        found = {"marks": self.marks, "dialogs": self.dialogs, "elsewhere": self.elsewhere, "errors": self.errors}
        self.marks, self.dialogs, self.elsewhere, self.errors = [], [], [], []
        assert {what: which for what, which in found.items() if which} == {}
