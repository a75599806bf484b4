"""A short loop of the desk for the first page: what if, as the sliders move; light and dark.

python benchmarks/desk_loop.py   (needs the extra web, and Chromium: CHROMIUM=/usr/bin/chromium)

``holdfast serve --demo`` is started in a folder of its own and asked the way a person would, one
screenshot for every position of a slider.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

OUT = Path(__file__).parent.parent / "docs" / "pictures"
#: of the page, and of the picture made of it
WINDOW = {"width": 1000, "height": 700}
WIDTH = 800
#: where the sliders go: erasures up and down again, then more room; a stop waits for the refit
WAY = [
    *(("k", value) for value in (1, 2, 3, 5, 7, 9, 11, 14)),
    ("stop", 0),
    *(("k", value) for value in (10, 6, 3, 1)),
    *(("room", value) for value in (0.02, 0.05, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3)),
    ("stop", 0),
]
#: milliseconds a frame is shown, and a stop
SHOWN, STOP = 380, 2200


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        serving = subprocess.Popen(
            [Path(sys.executable).with_name("holdfast"), "serve", "--demo", "--port", "8791"],
            cwd=folder,
            env={**os.environ, "LOGNAME": "officer", "USER": "officer"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            address = _address(serving)
            chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
            browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport=WINDOW, color_scheme="light")
            page.goto(address)
            base = re.match(r"https?://[^/]+", address)[0]
            page.goto(f"{base}/what-if")
            page.wait_for_selector("#answer svg, #answer figure", timeout=180_000)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                _save(_frames(page, base), OUT / f"desk-{scheme}.webp")
            browser.close()
        finally:
            serving.terminate()
            serving.wait()


def _address(serving: subprocess.Popen) -> str:
    """What it prints: the address that lets the first visitor in."""
    for line in serving.stdout:
        found = re.search(r"http://\S+", line)
        if found:
            return found[0]
    raise SystemExit("the desk did not open")


def _frames(page: Page, base: str) -> list[tuple[Image.Image, int]]:
    """The page at every position, as it answers, and for how long to show it."""
    page.goto(f"{base}/what-if?pick=worst&k=1&room=0")
    page.wait_for_load_state("networkidle")
    frames = []
    for name, value in WAY:
        if name == "stop":
            _confirmed(page)
        else:
            _slide(page, name, value)
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        height = round(shot.height * WIDTH / shot.width)
        frames.append(
            (
                shot.resize((WIDTH, height), Image.Resampling.LANCZOS),
                STOP if name == "stop" else SHOWN,
            )
        )
    return frames


def _slide(page: Page, name: str, value: float) -> None:
    slider = page.locator(f".sliders input[name={name}]")
    if float(slider.input_value()) == value:
        return
    with page.expect_response(lambda r: "/what-if" in r.url):
        slider.evaluate(
            "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})); }",
            value,
        )
    page.wait_for_load_state("networkidle")


def _confirmed(page: Page) -> None:
    """Wait for the refit that follows the prediction."""
    page.locator("#confirmed.done").wait_for(timeout=60_000)


def _save(frames: list[tuple[Image.Image, int]], path: Path) -> None:
    pictures, durations = zip(*frames, strict=True)
    pictures[0].save(
        path,
        save_all=True,
        append_images=pictures[1:],
        duration=durations,
        loop=0,
        quality=60,
        method=6,
    )
    print(f"{path.name}: {len(frames)} frames, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
