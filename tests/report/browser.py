"""A real Chromium, and a page in it that remembers everything that went wrong."""

import contextlib
import os
import time
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
SIZES = {"desk": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")


@contextlib.contextmanager
def launched():
    """Chromium; without it the test is skipped, or fails where FEDPLUS_BROWSER=required is set."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed: pip install playwright")
    if not CHROMIUM.exists():
        _missing(f"{CHROMIUM} is not there: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(QUIET))
        try:
            yield browser
        finally:
            browser.close()


def _missing(why):
    if os.environ.get("FEDPLUS_BROWSER") == "required":
        pytest.fail(f"No browser, and FEDPLUS_BROWSER=required: {why}.")
    pytest.skip(f"No browser: {why}.")


class Troubles:
    """What went wrong on a page: ``errors`` (console and exceptions) and ``elsewhere`` (requests)."""

    def __init__(self, page, allowed):
        self.errors = []
        self.elsewhere = []
        page.on("console", lambda m: m.type in {"error", "warning"} and self.errors.append(m.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._requested(request.url, allowed))

    def _requested(self, url, allowed):
        if not url.startswith((allowed, "data:", "blob:")):
            self.elsewhere.append(url)


@contextlib.contextmanager
def opened(browser, url, size="desk", scheme="light", **context):
    """A page at ``url`` (requests may go to its host, or its file, alone), and its troubles."""
    width, height = SIZES[size]
    made = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, **context
    )
    try:
        page = made.new_page()
        host = url if url.startswith("file:") else "/".join(url.split("/")[:3]) + "/"
        troubles = Troubles(page, host)
        page.goto(url)
        yield page, troubles
    finally:
        made.close()


def wait(page, condition, arg=None, seconds=10):
    """Ask until it is so: Playwright's own wait needs eval, which the page's policy forbids."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition, arg):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


def scrolls_sideways(page):
    """Whether the page, rather than a box on it, is wider than the window."""
    return page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )


def unlabelled(page):
    """The ids of charts that say nothing to a screen reader."""
    return page.evaluate(
        "[...document.querySelectorAll('.js-plotly-plot')]"
        ".filter((e) => !(e.getAttribute('aria-label') || '').trim()).map((e) => e.id)"
    )
