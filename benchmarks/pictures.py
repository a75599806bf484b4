"""The pictures of README and first page: the demo's report, its curve, the overshoot that decides.

make pictures   (needs Chromium: CHROMIUM=/usr/bin/chromium by default)
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from holdfast.cli.demo import run_demo

OUT = Path(__file__).parent.parent / "docs" / "pictures"


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        page = Path(folder, "demo.html")
        run_demo(page, quiet=True)
        chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            view = browser.new_page(
                viewport={"width": 1080, "height": 900}, color_scheme=scheme, device_scale_factor=1
            )
            view.goto(page.as_uri())
            view.screenshot(path=OUT / f"report-{scheme}.png", full_page=True, clip=_top(view))
            figure = view.locator("#overshoot figure").last
            figure.screenshot(path=OUT / f"overshoot-{scheme}.png")
            # for the site's first page: the plots alone, large enough for fine screens
            sharp = browser.new_page(
                viewport={"width": 1080, "height": 900}, color_scheme=scheme, device_scale_factor=2
            )
            sharp.goto(page.as_uri())
            for name in ("worst-case", "overshoot"):
                drawn = sharp.locator(f"#{name} figure svg").last
                drawn.screenshot(path=OUT / f"plot-{name}-{scheme}.png")
        browser.close()


def _top(view) -> dict[str, float]:
    """From the page's head down to the end of the worst-case section."""
    box = view.locator("#worst-case").bounding_box()
    return {"x": 0, "y": 0, "width": 1080, "height": min(box["y"] + box["height"], 1350)}


if __name__ == "__main__":
    main()
