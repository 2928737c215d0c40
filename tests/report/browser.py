"""Opens pages in a real Chromium, and records their errors and network requests."""

import contextlib
import os
import time
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
SIZES = {"desk": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")


@contextlib.contextmanager
def launch_chromium():
    """Start Chromium. Without it the test is skipped, or fails if FEDPLUS_BROWSER=required."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _skip_or_fail("playwright is not installed: pip install playwright")
    if not CHROMIUM.exists():
        _skip_or_fail(f"{CHROMIUM} does not exist: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


def _skip_or_fail(reason):
    if os.environ.get("FEDPLUS_BROWSER") == "required":
        pytest.fail(f"No browser, and FEDPLUS_BROWSER=required: {reason}.")
    pytest.skip(f"No browser: {reason}.")


class PageProblems:
    """Problems of a page: ``errors`` (console, exceptions), ``foreign_requests`` (to other hosts)."""

    def __init__(self, page, allowed):
        self.errors = []
        self.foreign_requests = []
        page.on("console", lambda m: m.type in {"error", "warning"} and self.errors.append(m.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._check_request(request.url, allowed))

    def _check_request(self, url, allowed):
        if not url.startswith((allowed, "data:", "blob:")):
            self.foreign_requests.append(url)


@contextlib.contextmanager
def open_page(browser, url, size="desk", scheme="light", **settings):
    """Open ``url``, and yield the page and its problems; only requests to its host are allowed."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, **settings
    )
    try:
        page = context.new_page()
        host = url if url.startswith("file:") else "/".join(url.split("/")[:3]) + "/"
        problems = PageProblems(page, host)
        page.goto(url)
        yield page, problems
    finally:
        context.close()


def wait_until(page, condition, arg=None, seconds=10):
    """Wait for a JavaScript condition.

    Playwright's own function needs eval, which the content security policy of the page forbids.
    """
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition, arg):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


def scrolls_sideways(page):
    """Return whether the page itself is wider than the window."""
    return page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )


def unlabelled_charts(page):
    """Return the ids of charts without a description for screen readers."""
    return page.evaluate(
        "[...document.querySelectorAll('.js-plotly-plot')]"
        ".filter((e) => !(e.getAttribute('aria-label') || '').trim()).map((e) => e.id)"
    )
