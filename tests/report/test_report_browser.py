"""The report and the case file in a real browser: no error, no request, tables that work."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

import holdfast as hf

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("HOLDFAST_CHROMIUM") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: install Debian's chromium, or set HOLDFAST_CHROMIUM"
)

HOSTILE = "<script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Both pages of an audit whose feature names and ids are hostile."""
    folder = tmp_path_factory.mktemp("report")
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X[:200].rename(columns={"bmi": HOSTILE})
    X.index = [f"<b onmouseover=alert(1)>{i}" for i in range(200)]
    model = hf.erasable(Ridge().fit(X, y[:200]), X, y[:200], favourable="low")
    given = hf.find_recourse(model, X[:60], target=-140, actionability="infer")
    cohorts = np.where(np.arange(200) % 2, HOSTILE, "even")
    result = hf.audit(model, given, max_deletions=3, draws=3, erasures=10, cohorts=cohorts)
    result.to_html(folder / "report.html")
    result.case_file(folder / "case.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


def opened(browser, path, width=1200, scheme="light"):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.problems, page.requests = [], []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(path.as_uri())
    return page


@pytest.mark.parametrize("name", ["report.html", "case.html"])
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_opens_quietly(pages, browser, name, width, scheme):
    page = opened(browser, pages / name, width, scheme)
    assert page.problems == []
    assert page.requests == [(pages / name).as_uri()]
    assert page.title() != "owned"
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # no sideways scrolling
    assert page.locator("script").count() == (1 if name == "report.html" else 2)
    folder = os.environ.get("HOLDFAST_SCREENSHOTS")
    if folder:
        target = Path(folder, f"{name.split('.')[0]}-{width}-{scheme}.png")
        page.screenshot(path=target, full_page=True)
    page.close()


def test_hostile_names_are_text(pages, browser):
    page = opened(browser, pages / "report.html")
    assert page.get_by_text(HOSTILE).count() >= 2  # among the features, and as a cohort
    page.close()
    page = opened(browser, pages / "case.html")
    assert page.locator("b[onmouseover]").count() == 0
    page.close()


def test_report_says_it_all(pages, browser):
    page = opened(browser, pages / "report.html")
    for part in ("headline", "worst-case", "likelihood", "cohorts", "overshoot", "certificates"):
        assert page.locator(f"#{part}").count() == 1, part
    for part in ("why", "trust", "limits", "methods", "how-to-read"):
        assert page.locator(f"#{part}").count() == 1, part
    for figure in page.locator("figure svg").all():
        box = figure.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 80
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.click("#how-to-read summary")
    assert page.get_by_text("Erasure is a right").is_visible()
    assert len(page.pdf()) > 10_000  # it prints
    page.close()


def column(page, name):
    heads = [h.inner_text() for h in page.locator("#recourses th").all()]
    place = heads.index(name) + 1
    cells = page.locator(f"#recourses tbody tr:not([hidden]) td:nth-child({place})")
    return cells.evaluate_all("cells => cells.map(c => c.dataset.key)")


def test_case_file_sorts_and_searches(pages, browser):
    page = opened(browser, pages / "case.html")
    margins = [float(m) for m in column(page, "margin")]
    page.click("#recourses th button:has-text('margin')")
    assert [float(m) for m in column(page, "margin")] == sorted(margins)
    page.click("#recourses th button:has-text('margin')")
    assert [float(m) for m in column(page, "margin")] == sorted(margins, reverse=True)
    ids = column(page, "id")
    page.fill("#search", ids[3].upper())
    shown = column(page, "id")
    assert ids[3] in shown
    assert len(shown) < len(ids)
    assert "of" in page.locator("#found").inner_text()
    page.fill("#search", "")
    assert len(column(page, "id")) == len(ids)
    assert page.get_by_text("Personal data").first.is_visible()
    page.close()
