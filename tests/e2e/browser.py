"""Chromium as a person uses it: one visitor's pages, and all that went wrong on them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, expect, sync_playwright

PATIENCE = 240_000
"""Milliseconds without news after which a page is given up; a busy host is slow and not wrong."""
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 400, "height": 860}


@dataclass
class Visitor:
    """A person at a browser of their own. `troubles` are the failed requests and console errors of all their pages."""

    page: Page
    url: str
    troubles: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self._note(f"script error: {error}"))
        self.page.on("response", self._response)
        self.page.on("requestfailed", self._failed)

    def go(self, path: str) -> int:
        """Open a page by its address, and return the status of the answer."""
        answer = self.page.goto(self.url + path)
        assert answer is not None
        return answer.status

    @contextmanager
    def refused(self, *statuses: int) -> Iterator[None]:
        """Expect answers of these statuses meanwhile: they are no trouble."""
        self.expected = set(statuses)
        yield
        self.expected = set()

    @property
    def path(self) -> str:
        """Where the visitor is."""
        return urlsplit(self.page.url).path

    def _note(self, what: str) -> None:
        self.troubles.append(f"{self.path}: {what}")

    def _console(self, message: ConsoleMessage) -> None:
        # Of a failed load the console says what `_response` and `_failed` tell better.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self._note(f"console: {message.text}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self._note(f"{response.status} for {response.request.method} {response.url}")

    def _failed(self, request: Request) -> None:
        # A page that is left takes its open requests with it, and a download is no page: Chromium calls both aborted.
        if request.failure != "net::ERR_ABORTED":
            self._note(f"{request.failure} for {request.method} {request.url}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium without a window."""
    program = shutil.which("chromium")
    assert program, "chromium is missing: scripts/bootstrap test names the package"
    # Chromium's sandbox refuses root; it sees nothing but the lab.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


def visitor(browser: Browser, url: str) -> Visitor:
    """Return somebody at a desk, with no session yet."""
    context = browser.new_context(viewport=DESK, reduced_motion="reduce", locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    return Visitor(context.new_page(), url)
