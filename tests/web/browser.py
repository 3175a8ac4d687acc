"""A real browser on the page: Debian's Chromium, driven by Playwright.

Law: whatever a test does with a tab, at its end the tab has reported no error, broken no rule of
its Content-Security-Policy, and asked nobody but its own origin.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from web.page_home import PageHome

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Chromium notes every answer that is no success, and every connection that is refused.
NETWORK_NOTES = re.compile(r"Failed to load resource")

PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


def program() -> str | None:
    """Where the browser is."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser, or a reason why there is none."""
    path = program()
    if path is None:
        assert not os.environ.get("CI"), "the tests in a browser need chromium"
        pytest.skip("no chromium: the page is not tried in a browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-dev-shm-usage"] if os.geteuid() == 0 else [],
        )
        try:
            yield browser
        finally:
            browser.close()


class Tabs:
    """The tabs of one browser profile, and everything that went wrong in them."""

    def __init__(self, browser: Browser, page: PageHome, **options: Any) -> None:
        self.page = page
        self.context: BrowserContext = browser.new_context(
            viewport=options.pop("viewport", {"width": 1280, "height": 800}), **options
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.expects_refusals = False
        self.context.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " (e) => console.error('CSP violation: ' + e.violatedDirective + ' ' + e.blockedURI))"
        )
        self.context.on("request", lambda request: self.requests.append(request.url))

    def open(self) -> Page:
        """A new tab; nothing is shown in it yet."""
        tab = self.context.new_page()
        tab.on("console", lambda m: self._heard(m.type, m.text, m.location.get("url", "")))
        tab.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        tab.on("dialog", lambda dialog: self.errors.append(f"a dialog: {dialog.message}"))
        return tab

    def enter(self, path: str = "", *, read_only: bool = False) -> Page:
        """A tab that was let in, at some view, with the feed running."""
        tab = self.open()
        key = self.page.access.new_key(read_only=read_only)
        tab.goto(f"{self.page.url}/enter#{key}")
        tab.wait_for_url(f"{self.page.url}/")
        expect(tab.locator("#link")).to_have_text("live")
        if path:
            self.go(tab, path)
        return tab

    def go(self, tab: Page, path: str) -> None:
        """To another view."""
        tab.evaluate("(to) => { location.hash = to; }", path)

    def _heard(self, kind: str, text: str, where: str) -> None:
        if kind not in ("error", "warning"):
            return
        if self.expects_refusals and NETWORK_NOTES.search(text):
            return
        self.errors.append(f"{kind}: {text} {where}")

    def close(self) -> None:
        """Leave, and judge."""
        self.context.close()
        assert not self.errors, self.errors
        foreign = [u for u in self.requests if not u.startswith((f"{self.page.url}/", "blob:"))]
        assert not foreign, f"requests left the origin: {foreign}"
