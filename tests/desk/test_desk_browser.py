"""The desk in a real browser: every page, two weeks, two people at once, a lost connection."""

import os
import re
import shutil

import pytest
from desk_at_hand import PASSWORD, Served

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("HOLDFAST_CHROMIUM") or shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: install Debian's chromium, or set HOLDFAST_CHROMIUM"
    ),
    pytest.mark.xdist_group("desk in a browser"),
]

HOSTILE = "<script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@pytest.fixture
def served(desk):
    made = Served(desk.folder, "--ledger", "books.db")
    yield made
    assert "Traceback" not in made.end()


def window(browser, served, width=1200, scheme="light", **options):
    """A browser of somebody's own; what goes wrong in it is collected."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **options
    )
    page = context.new_page()
    page.problems = []
    page.on("console", lambda m: page.problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on(
        "request",
        lambda r: None if r.url.startswith(served.base) else page.problems.append(r.url),
    )
    return page


def let_in(page, served, name, role):
    """An admin makes somebody, with a first password which they change."""
    page.goto(f"{served.base}/users")
    form = page.locator("#new-user")
    form.locator("[name=name]").fill(name)
    form.locator("[name=role]").select_option(role)
    form.locator("[name=password]").fill("a first password")
    form.get_by_role("button").click()
    page.wait_for_selector("#said")


def sign_in(page, served, name):
    page.goto(f"{served.base}/sign-in")
    page.fill("[name=name]", name)
    page.fill("[name=password]", "a first password")
    page.keyboard.press("Enter")
    page.wait_for_selector("[name=again]")
    page.fill("[name=old]", "a first password")
    page.fill("[name=new]", PASSWORD)
    page.fill("[name=again]", PASSWORD)
    page.get_by_role("button", name="Change it").click()
    page.wait_for_url("**/sign-in*")
    page.fill("[name=name]", name)
    page.fill("[name=password]", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{served.base}/")


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_every_page(browser, served, desk, width, scheme):
    desk.books.receive([desk.breaker()])
    page = window(browser, served, width, scheme)
    page.goto(served.address)
    page.wait_for_url(f"{served.base}/")
    for place in (
        *("/", "/what-if?pick=random&k=3", "/requests", "/requests/preview?number=1", "/promises"),
        *("/promises/1", "/reports", "/log", "/users", "/account", "/what-if/who?pick=random"),
    ):
        page.goto(served.base + place)
        assert page.locator("h1").count() == 1
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0, place
        assert page.locator("nav a[aria-current]").count() == (place != "/account")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 26)")
    assert page.problems == []


def test_what_if_moves_with_the_sliders(browser, served):
    page = window(browser, served)
    page.goto(served.address)
    page.goto(f"{served.base}/what-if?pick=random&k=1")
    sync_api.expect(page.locator("#confirmed em")).to_have_text("confirmed", timeout=60_000)
    page.get_by_role("slider", name="erased").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")  # by the keyboard alone
    answer = page.locator("#answer")
    sync_api.expect(answer).to_contain_text("without 5 people")
    predicted = int(answer.locator(".numbers b").first.inner_text())
    sync_api.expect(page.locator("#confirmed em")).to_have_text("confirmed", timeout=30_000)
    assert int(page.locator("#confirmed b").inner_text()) == predicted
    page.get_by_role("slider", name="more room").focus()
    page.keyboard.press("End")
    sync_api.expect(answer.locator(".numbers b").first).to_have_text("0")
    # somebody by id, with what was typed suggested
    page.get_by_label("id of somebody to add").press_sequentially("C-00", delay=20)
    sync_api.expect(page.locator("#ids option")).to_have_count(12)
    page.get_by_label("id of somebody to add").fill("C-0007")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator(".chip")).to_contain_text("C-0007")
    sync_api.expect(page.locator("#answer")).to_contain_text("without 1 person")
    page.get_by_label("id of somebody to add").fill(HOSTILE)
    page.keyboard.press("Enter")
    sync_api.expect(page.get_by_role("alert")).to_contain_text("not in the training table")
    assert page.title() != "owned"
    page.get_by_label("the worst k").check()
    sync_api.expect(
        page.locator("#answer .numbers .proof, #answer .numbers b").first
    ).to_be_visible(timeout=60_000)
    assert page.problems == []


def test_two_weeks_and_two_people(browser, served, desk):
    """Added by one, agreed to by another, written, sent; the week after starts from there."""
    one = desk.breaker()
    admin = window(browser, served)
    admin.goto(served.address)
    let_in(admin, served, "Ada", "officer")
    let_in(admin, served, "Ben", "officer")
    let_in(admin, served, "Vera", "viewer")
    admin.locator("#settings [name=two_people]").check()
    admin.locator("#settings button").click()
    ada, ben = window(browser, served), window(browser, served)
    sign_in(ada, served, "Ada")
    sign_in(ben, served, "Ben")

    ada.goto(f"{served.base}/requests")
    ada.fill("[name=ids]", one)
    ada.get_by_role("button", name="Write them down").click()
    sync_api.expect(ada.locator("#said")).to_contain_text("received: request 1")
    ada.get_by_label("request 1").check()
    ada.get_by_role("button", name="Preview").click()
    broken = int(ada.locator(".numbers b").first.inner_text())
    assert broken > 0
    ada.get_by_label("I am sure").check()
    ada.get_by_role("button", name="Ask a second person").click()
    sync_api.expect(ada.locator("#done")).to_contain_text("as soon as somebody else agrees")

    ben.goto(f"{served.base}/requests/preview?number=1")
    ben.get_by_label("I am sure").check()
    ben.get_by_role("button", name="Agree, and honour").click()
    sync_api.expect(ben.locator("#done")).to_contain_text(f"{broken} of", timeout=30_000)

    ada.goto(f"{served.base}/requests")
    ada.locator("#letters").get_by_role("button", name="Write them").click()
    sync_api.expect(ada.locator("#said")).to_contain_text(f"{broken} letters written")
    with ada.expect_popup() as opened:
        ada.get_by_role("link", name="open and print").first.click()
    letter = opened.value
    letter.wait_for_load_state()
    assert "Example Bank" in letter.inner_text("body")
    letter.close()
    for box in ada.locator("#letters input[type=checkbox]").all():
        box.check()
    ada.get_by_role("button", name="These were sent").click()
    sync_api.expect(ada.locator("#said")).to_contain_text(f"{broken} people have been told")

    # the week after
    ada.goto(f"{served.base}/requests")
    ada.fill("[name=ids]", desk.holder(inside=False))
    ada.get_by_role("button", name="Write them down").click()
    ada.goto(f"{served.base}/requests/preview?number=2")
    ada.get_by_label("I am sure").check()
    ada.get_by_role("button", name="Ask a second person").click()
    ben.goto(f"{served.base}/requests/preview?number=2")
    ben.get_by_label("I am sure").check()
    ben.get_by_role("button", name="Agree, and honour").click()
    sync_api.expect(ben.locator("#done")).to_contain_text("0 training rows", timeout=30_000)
    ben.goto(f"{served.base}/log")
    ben.get_by_role("button", name="Verify the chain").click()
    sync_api.expect(ben.locator("#verified")).to_contain_text("lines follow from each other")
    states = desk.books.status()
    assert states.requests == {"completed": 2}
    assert states.promises["told"] == broken

    vera = window(browser, served)
    sign_in(vera, served, "Vera")
    for place in ("/requests", "/promises/1", "/what-if", "/users", "/letters/1"):
        vera.goto(served.base + place)  # typed
        sync_api.expect(vera.get_by_role("alert")).to_contain_text("yours is 'viewer'")
    assert "403" in "".join(vera.problems)
    for page in (admin, ada, ben):
        assert page.problems == []


def test_a_connection_lost_in_the_middle_of_honouring(browser, served, desk):
    desk.books.receive([desk.breaker()])
    page = window(browser, served)
    page.goto(served.address)
    page.goto(f"{served.base}/requests/preview?number=1")
    page.get_by_label("I am sure").check()
    token = page.locator("#honour [name=csrf]").get_attribute("value")
    page.evaluate(
        """([token]) => { const stop = new AbortController();
        fetch("/requests/honour", {method: "POST", signal: stop.signal,
          body: new URLSearchParams({csrf: token, number: "1", sure: "true"})}).catch(() => {});
        setTimeout(() => stop.abort(), 30); }""",
        [token],
    )
    page.wait_for_timeout(300)
    page.goto(f"{served.base}/requests/preview?number=1")
    if page.locator("#honour").count() and page.get_by_label("I am sure").count():
        page.get_by_label("I am sure").check()  # it had not begun, or is not done: once more
        page.get_by_role("button", name="Honour").click()
        page.wait_for_selector("#done", timeout=30_000)
    page.goto(f"{served.base}/requests?all=true")
    sync_api.expect(page.locator("#list")).to_contain_text("honoured")
    assert desk.books.verify().faults == []
    assert len([e for e in desk.books.log() if e.event == "erasure"]) == 1


def test_reading_needs_no_javascript(browser, served, desk):
    page = window(browser, served, java_script_enabled=False)
    page.goto(served.address)
    for place, said in (
        ("/", "How things stand"),
        ("/what-if?pick=random&k=3&confirm=true", "confirmed"),
        ("/promises?sort=margin&descending=true", "Promises"),
        ("/log?verify=true", "lines follow from each other"),
        ("/reports", "Reports"),
    ):
        page.goto(served.base + place)
        assert said in page.inner_text("main")
    page.goto(f"{served.base}/what-if")
    page.get_by_label("at random", exact=False).first.check()
    page.get_by_role("button", name="Ask").click()
    assert "pick=random" in page.url
    page.goto(f"{served.base}/promises")
    page.get_by_role("link", name="margin").click()
    assert re.search(r"sort=margin", page.url)


def test_a_report_with_progress(browser, served):
    page = window(browser, served)
    page.goto(served.address)
    page.goto(f"{served.base}/reports")
    page.fill("[name=title]", HOSTILE)
    page.fill("[name=max_deletions]", "3")
    page.get_by_role("button", name="Begin").click()
    sync_api.expect(page.get_by_role("link", name="open")).to_be_visible(timeout=90_000)
    with page.expect_popup() as opened:
        page.get_by_role("link", name="open").click()
    report = opened.value
    report.wait_for_load_state()
    assert "Do promised recourses survive erasure?" in report.inner_text("h1")
    assert page.title() != "owned"
    assert page.problems == []
