"""Take the screenshot of the report at the top of the README.

Run: make demo && .venv/bin/python docs/report_picture.py
"""

from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "runs" / "demo" / "report.html"
PICTURE = ROOT / "docs" / "pictures" / "report.png"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> None:
    """Take a screenshot of the report down to the learning curves."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page(viewport={"width": 1120, "height": 900})
        page.goto(REPORT.as_uri())
        page.wait_for_selector("#learning .main-svg")
        page.wait_for_timeout(1000)
        box = page.locator("#learning").bounding_box()
        assert box is not None
        bottom = int(box["y"] + box["height"] - 60)
        page.screenshot(path=PICTURE, full_page=True)
        browser.close()
    with Image.open(PICTURE) as whole:
        whole.crop((0, 0, 1120, bottom)).quantize(128).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
