"""What the desk answers: numbers against refits, looks in the log, nothing written by asking."""

import json
import os
import re
import sqlite3
import threading
import time
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
from desk_at_hand import Office, post

from holdfast.desk import jobs as desk_jobs
from holdfast.desk import service
from holdfast.desk.sources import CaseSource
from holdfast.desk.whatif import WhatIf, answered, people_picked
from holdfast.desk.workers import result_of
from holdfast.errors import HoldfastError
from holdfast.report.suppression import FEWEST


def until(found, seconds=60):
    """Wait for something that is worked out elsewhere."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError("it took too long")


def confirmed(client, asked):
    """The answer once a refit has confirmed it, else nothing."""
    answer = client.get(f"/api/v1/what-if/confirmed?{asked}").json()
    return None if answer["confirming"] == "running" else answer


def test_predicted_and_confirmed_are_what_a_refit_says(office):
    client = office.visit("analyst")
    _, _, matter = office.desk.loaded.at_hand(None)
    for seed in range(4):
        asked = f"pick=random&k=3&seed={seed}"
        answer = until(lambda asked=asked: confirmed(client, asked))
        rows, count = people_picked(matter, WhatIf(pick="random", k=3, seed=seed), None)
        after = matter.model.without(rows).scores(matter.points)
        assert count == 3
        assert answer["confirming"] == "done"
        assert answer["confirmed"] == answer["predicted"] == int((after < matter.target).sum())
        assert sum(bar["after"] for bar in answer["bars"]) == len(matter.points)
        fallen = sum(bar["after"] for bar in answer["bars"] if bar["high"] <= 1e-12)
        assert fallen == answer["predicted"]


@pytest.mark.surveyed
def test_the_worst_are_the_audits_and_the_ceiling_holds(office):
    client = office.visit("analyst")
    survey = until(lambda: office.desk.survey(None))
    _, _, matter = office.desk.loaded.at_hand(None)
    for k in (1, 3):
        answer = client.get(f"/api/v1/what-if?k={k}").json()
        after = matter.model.without(survey["sets"][k]).scores(matter.points)
        assert answer["predicted"] == int((after < matter.target).sum()) > 0
        assert answer["ceiling"] is None or answer["predicted"] <= (
            answer["ceiling"] * answer["promises"] + 1e-9
        )
        assert survey["curve"][k]["refitted"] == pytest.approx(
            answer["predicted"] / answer["promises"]
        )
    seen = office.visit("viewer").get("/api/v1/overview").json()
    assert seen["worst"]["headline"]["refitted"] is not None


def test_more_room_breaks_fewer_by_exactly_that_much(office):
    _, _, matter = office.desk.loaded.at_hand(None)
    source = office.desk.loaded.source(None)
    rows = np.argsort(-np.asarray(matter.deletions.single_effects()).max(axis=0))[:3]
    after = matter.model.without(rows).scores(matter.points)
    unit, counts = matter.model.score_unit, []
    for room in (0.0, 0.01, 0.1, 5.0):
        found = answered(source, matter, WhatIf(room=room), rows, 3)
        counts.append(found.predicted)
        assert found.predicted == int((after + room * unit < matter.target).sum())
        assert len(found.broken) == min(found.predicted, 50)
    assert counts[0] > counts[-1] == 0


def test_people_by_id_with_everything_they_own(template, tmp_path):
    folder = tmp_path / "case"
    folder.mkdir()
    table = pd.read_csv(template / "train.csv")
    table["household"] = [f"H-{i // 3}" for i in range(len(table))]
    table.to_csv(folder / "train.csv", index=False)
    people = pd.read_csv(template / "people.csv")[:60]
    people.to_csv(folder / "people.csv", index=False)
    (folder / "audit.toml").write_text(
        'train = "train.csv"\nlabel = "merit"\nid = "customer"\nsubject = "household"\n'
        'model = "ridge"\npeople = "people.csv"\n'
    )
    office = Office(tmp_path, case=folder / "audit.toml")
    client = office.visit("analyst")
    answer = client.get("/api/v1/what-if?pick=people&person=H-2&person=H-7").json()
    assert (answer["people"], answer["rows"], answer["source"]) == (2, 6, "case")
    _, _, matter = office.desk.loaded.at_hand(None)
    rows = np.flatnonzero(table["household"].isin(["H-2", "H-7"]))
    after = matter.model.without(rows).scores(matter.points)
    assert answer["predicted"] == int((after < matter.target).sum())
    assert client.get("/requests").status_code == 403
    assert "without a ledger" in office.visit("officer").get("/requests").text
    assert client.get("/").status_code == 200

    # the table changes: what is asked next is asked of the new one; what does not fit says so
    table[:-9].to_csv(folder / "train.csv", index=False)
    _, _, fewer = office.desk.loaded.at_hand(None)
    assert len(fewer.names) == len(table) - 9
    table.drop(columns="merit").to_csv(folder / "train.csv", index=False)
    wrong = client.get("/what-if?pick=random")
    assert wrong.status_code == 409
    assert "merit" in re.search(r'id="wrong">([^<]*)', wrong.text)[1]
    (folder / "train.csv").unlink()
    assert client.get("/api/v1/what-if?pick=random").status_code == 409
    office.close()


def test_asking_writes_nothing_and_looking_is_in_the_log(office):
    client, books = office.visit("analyst"), office.counter.books
    before = books.verify()
    name = office.counter.breaker()
    for place in (
        *("/what-if?pick=random&k=5", f"/what-if?pick=people&add={quote(name)}", "/"),
        *("/what-if/people?add=C", "/what-if/confirmed?pick=random&k=2", "/api/v1/what-if?k=2"),
    ):
        assert client.get(place).status_code == 200
        assert books.verify() == before
    token = re.compile(r"[0-9a-f]{64}")
    assert client.get("/promises/1").status_code == 200
    line = books.log(1)[0]
    body = json.loads(line.body)
    assert (line.event, line.by, body["page"], body["promise"]) == (
        *("looked", "analyst"),
        *("promise", 1),
    )
    assert len(body["people"]) == 1
    assert token.fullmatch(body["people"][0])
    client.get("/promises?state=live")
    shown = json.loads(books.log(1)[0].body)
    assert shown["count"] == 50
    assert 1 <= len(shown["people"]) <= 50
    client.get("/what-if/who?pick=random&k=4")
    assert json.loads(books.log(1)[0].body)["count"] == 4
    assert books.verify().faults == []
    everything = " ".join(entry.body for entry in books.log())
    assert not re.search(r"C-\d{4}|X-\d{3}", everything)


def test_a_viewer_sees_aggregates_without_small_groups(office):
    viewer, analyst = office.visit("viewer"), office.visit("analyst")
    counter = office.counter
    counter.books.receive([counter.holder(True, 3), counter.breaker()])
    counter.books.honour([1])
    seen = viewer.get("/api/v1/overview").json()
    whole = analyst.get("/api/v1/overview").json()
    assert whole["requests"] == {"completed": 1, "pending": 1}
    assert seen["requests"] == {"completed": None, "pending": None}
    assert seen["due"] == []
    assert seen["letters"] == {}
    for group in ("promises", "requests", "certified_left", *seen["changed"]):
        counts = seen["changed"].get(group, seen.get(group))
        assert all(n is None or n == 0 or n >= FEWEST for n in counts.values())
    for state, count in seen["changed"]["promises"].items():  # nor does a difference tell
        rest = whole["promises"][state] - whole["changed"]["promises"][state]
        assert count is None or rest == 0 or rest >= FEWEST
    page = viewer.get("/").text
    assert not re.search(r"C-\d{4}|X-\d{3}", page)
    assert "/requests/preview" not in page


def test_two_weeks(office):
    """Added, previewed, honoured, told; the second week starts where the first one ended."""
    officer, counter, books = office.visit("officer"), office.counter, office.counter.books
    one, live = counter.breaker(), books.status().promises["live"]
    assert "received: request 1" in post(officer, "/requests", ids=f"{one}\n").text
    told = officer.get("/api/v1/requests/preview?number=1").json()
    assert told["breaks"] > 0
    page = officer.get("/requests/preview?number=1").text
    assert f"<b>{told['breaks']}</b>of {told['promises']:,} promises break" in page
    assert "income" in page
    refused = post(officer, "/requests/honour", number="1")
    assert refused.status_code == 409
    assert "say that you are sure" in refused.text
    assert books.status().requests == {"pending": 1}
    done = post(officer, "/requests/honour", number="1", sure="true")
    assert f"{told['breaks']} of {told['promises']} other promises broke" in done.text
    again = post(officer, "/requests/honour", number="1", sure="true")
    assert "nothing more was done" in again.text
    # the algebra knows of the new model
    answer = officer.get("/api/v1/what-if?pick=random&k=1").json()
    assert answer["promises"] == books.status().promises["live"] == live
    assert officer.get(f"/api/v1/what-if?pick=people&person={one}").status_code == 409

    letters = officer.get("/api/v1/letters").json()
    assert len(letters) == told["breaks"]
    assert officer.get(f"/letters/{letters[0]['letter']}").status_code == 409
    assert f"{len(letters)} letters written" in post(officer, "/letters/write").text
    letter = officer.get(f"/letters/{letters[0]['letter']}")
    assert "Example Bank" in letter.text
    assert "sandbox" in letter.headers["content-security-policy"]
    assert one not in letter.text
    assert json.loads(books.log(1)[0].body)["letter"] == letters[0]["letter"]
    numbers = [each["letter"] for each in letters]
    sent = post(officer, "/letters/sent", number=numbers)
    assert f"{len(numbers)} people have been told" in sent.text
    assert list(office.desk.letters_folder.glob("letter-*")) == []

    counter.pass_days(7)
    other = counter.holder(inside=False)
    post(officer, "/requests", ids=other)
    assert post(officer, "/requests/2/close", what="extend", reason="holidays").status_code == 200
    assert post(officer, "/requests/2/close", what="extend", reason="again").status_code == 409
    done = post(officer, "/requests/honour", number="2", sure="true")
    assert "0 training rows of 0 people erased" in done.text
    assert books.verify().faults == []
    for place in ("/promises", "/requests?all=true", "/log", "/"):
        text = officer.get(place).text
        assert one not in text
        assert other not in text


def test_a_second_person_has_to_agree(office):
    admin = office.visit("admin")
    post(admin, "/users/settings", two_people="true")
    one, two = office.visit("officer", "one"), office.visit("officer", "two")
    counter = office.counter
    names = [counter.breaker(), counter.holder(True, 1)]
    post(one, "/requests", ids="\n".join(names))
    waiting = post(one, "/requests/honour", number="1", sure="true")
    assert "as soon as somebody else agrees" in waiting.text
    alone = post(one, "/requests/honour", number="1", sure="true")
    assert alone.status_code == 403
    assert "somebody else has to agree" in alone.text
    # a list that has a fresh one in it proposes that one and honours nothing
    mixed = post(two, "/requests/honour", number=["1", "2"], sure="true")
    assert "Waiting for a second person" in mixed.text
    assert counter.books.status().requests == {"pending": 2}
    assert (
        "waits for a second person" in two.get("/").text or "wait for a second" in two.get("/").text
    )
    done = post(two, "/requests/honour", number="1", sure="true")
    assert "Honoured" in done.text
    line = [e for e in counter.books.log() if e.event == "erasure"][-1]
    assert line.by == "two, asked for by one"
    assert [e.by for e in counter.books.log() if e.event == "proposed"] == ["one", "two"]
    assert post(two, "/requests/2/close", what="refuse", reason="withdrawn").status_code == 200
    assert office.desk.proposals() == []


def test_what_was_proposed_is_taken_back_and_goes_with_whoever_proposed_it(office):
    admin = office.visit("admin")
    post(admin, "/users/settings", two_people="true")
    one, two = office.visit("officer", "one"), office.visit("officer", "two")
    post(one, "/requests", ids="\n".join(office.counter.holder(True, i) for i in range(1, 4)))
    post(one, "/requests/honour", number=["1", "2"], sure="true")
    assert post(two, "/requests/1/close", what="withdraw").status_code == 200
    line = office.counter.books.log()[-1]
    assert (line.event, line.by) == ("proposed", "two")
    assert json.loads(line.body) == {"requests": [1], "withdrawn": "yes"}
    assert (
        post(two, "/requests/1/close", what="withdraw").status_code == 409
    )  # nothing to take back
    assert [each.request for each in office.desk.proposals()] == [2]
    post(admin, "/users", what="role", name="one", role="viewer")
    assert office.desk.proposals() == []
    post(two, "/requests/honour", number="3", sure="true")
    post(admin, "/users", what="remove", name="two")
    assert office.desk.proposals() == []


@pytest.mark.parametrize("first", ["withdraw", "honour"])
def test_taken_back_or_agreed_to_but_never_both(office, first):
    admin, counter = office.visit("admin"), office.counter
    post(admin, "/users/settings", two_people="true")
    one, two = office.visit("officer", "one"), office.visit("officer", "two")
    post(one, "/requests", ids=counter.breaker())
    post(one, "/requests/honour", number="1", sure="true")
    answers = {}

    def act(what):
        if what == "withdraw":
            answers[what] = post(one, "/requests/1/close", what="withdraw").status_code
        else:
            answers[what] = post(two, "/requests/honour", number="1", sure="true").status_code

    held = sqlite3.connect(counter.address, isolation_level=None)
    held.execute("BEGIN IMMEDIATE")  # both have to wait for the ledger
    threads = [threading.Thread(target=act, args=(first,))]
    threads.append(threading.Thread(target=act, args=({"withdraw", "honour"} - {first})))
    try:
        for thread in threads:
            thread.start()
            time.sleep(0.5)
    finally:
        held.execute("ROLLBACK")
        held.close()
    for thread in threads:
        thread.join()
    lines = counter.books.log()
    erased = [line.by for line in lines if line.event == "erasure"]
    taken_back = [line for line in lines if line.event == "proposed" and "withdrawn" in line.body]
    if first == "withdraw":
        assert (erased, len(taken_back)) == ([], 1)  # whoever came later has asked anew
    else:
        assert (erased, taken_back) == (["two, asked for by one"], [])
        assert answers["withdraw"] == 409


def test_what_a_program_proposed_goes_with_its_token(office):
    post(office.visit("admin"), "/users/settings", two_people="true")
    post(office.visit("officer"), "/requests", ids=office.counter.breaker())
    token = office.desk.access.add_client("bot", "officer")
    headers = {"authorization": f"Bearer {token}"}
    office.stranger().post("/api/v1/requests/honour", json={"numbers": [1]}, headers=headers)
    assert [each.by for each in office.desk.proposals()] == ["program bot"]
    office.desk.access.remove_client("bot")
    assert office.desk.proposals() == []


def test_a_file_put_in_anothers_place_is_noticed(tmp_path):
    for name, value in (("t.csv", 1), ("other.csv", 2)):
        (tmp_path / name).write_text("a,y\n" + f"{value},1\n" * 9)
        os.utime(tmp_path / name, (10**9, 10**9))
    (tmp_path / "audit.toml").write_text('train = "t.csv"\nlabel = "y"\nmodel = "ridge"\n')
    source = CaseSource(str(tmp_path / "audit.toml"))
    before = source.stamp()
    assert source.stamp() == before
    os.replace(tmp_path / "other.csv", tmp_path / "t.csv")
    assert source.stamp() != before


@pytest.mark.parametrize("title", ["two\nlines", "nothing\0", "turned \u202e round"])
def test_titles_are_one_line(office, title):
    client = office.visit("analyst")
    assert post(client, "/reports", title=title, max_deletions="1").status_code == 409
    assert office.desk.jobs.all() == []


def test_every_late_request_is_counted(office):
    client, counter = office.visit("officer"), office.counter
    names = [counter.holder(True, i) for i in range(1, 14)]
    post(client, "/requests", ids="\n".join(names), received="2020-01-01")
    assert client.get("/api/v1/overview").json()["late"] == 13


def test_a_viewer_is_not_told_what_may_name_somebody(office, monkeypatch):
    analyst, viewer = office.visit("analyst"), office.visit("viewer")

    def fails(*args, **kwargs):
        raise HoldfastError("the row of C-0001 cannot be read")

    post(analyst, "/reports", title="For the board", max_deletions="100")
    desk_jobs._WAITED_FOR[-1].kill()
    desk_jobs._WAITED_FOR[-1].wait()
    until(lambda: office.desk.jobs.one(1).state != "running")
    assert "without a word" in analyst.get("/reports").text
    assert "without a word" not in viewer.get("/reports").text
    assert viewer.get("/api/v1/reports/1").json()["message"] == service.KEPT_BACK
    monkeypatch.setattr(office.desk, "survey", fails)
    assert "C-0001" in analyst.get("/api/v1/overview").json()["trouble"]
    assert viewer.get("/api/v1/overview").json()["trouble"] == service.KEPT_BACK


@pytest.mark.parametrize("number", [True, "1", 1.0, 0, 2**63, None])
def test_numbers_of_requests_are_numbers(office, number):
    client = office.visit("officer")
    sent = {"json": {"numbers": [number]}, "headers": {"x-csrf-token": client.csrf}}
    assert client.post("/api/v1/requests/honour", **sent).status_code == 422


def test_hostile_ids_names_and_titles_are_text(office):
    admin, books = office.visit("admin"), office.counter.books
    hostile = "<img src=x onerror=alert(1)>\"'&\u202e"
    post(admin, "/requests", ids=hostile, unknown="true")
    post(admin, "/requests/1/close", what="refuse", reason=hostile)
    post(admin, "/users", what="add", name="<script>alert(1)</script>", password="x1y2z3w4v5u6")
    post(admin, "/reports", title=hostile.replace("\u202e", ""), max_deletions="1")
    until(lambda: all(j.state != "running" for j in office.desk.jobs.all()))
    for place in (
        *("/requests?all=true", "/users", "/reports", "/log", "/promises?about=" + quote(hostile)),
        *("/what-if?pick=people&add=" + quote(hostile), "/requests?said=" + quote(hostile)),
        *("/sign-in?said=" + quote(hostile), "/what-if/people?add=" + quote(hostile)),
    ):
        text = admin.get(place).text
        assert "<img" not in text
        assert "<script>alert" not in text
    assert books.verify().faults == []


@pytest.mark.parametrize(
    "place",
    [
        *("/what-if?k=0", "/what-if?k=9999", "/what-if?room=nan", "/what-if?seed=-1"),
        *("/what-if?pick=everybody", "/what-if?source=nowhere", "/promises?sort=salt"),
        *("/promises?state=happy", "/promises?page=0", "/promises/0", "/promises/99999999999"),
        *("/promises/1e3", "/requests/preview", "/requests/preview?number=77", "/letters/9"),
        *("/reports/4", "/log?last=0", "/nowhere", "/promises?about=" + "x" * 300),
    ],
)
def test_nonsense_in_the_address(office, place):
    client = office.visit("officer")
    before = office.counter.books.verify().content
    for headers in ({}, {"HX-Request": "true"}):
        answer = client.get(place, headers=headers)
        assert 400 <= answer.status_code < 500, place
        assert 'role="alert"' in answer.text
        assert "should not have happened" not in answer.text
    assert office.counter.books.verify().content == before


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ids": ""}, "nobody asks"),
        ({"ids": "nobody at all"}, "neither in the training table"),
        ({"ids": "C-0001\nC-0001"}, "request"),
        ({"ids": "C-0001", "received": "2026-13-77"}, "is no day"),
        ({"ids": "C-0001", "received": "2999-01-01"}, "in the future"),
        ({"ids": "C-0001\0", "unknown": "true"}, "no text"),
    ],
)
def test_nonsense_in_a_form(office, fields, said):
    client = office.visit("officer")
    answer = post(client, "/requests", **fields)
    assert said in answer.text
    assert answer.status_code in (200, 409)


def test_a_request_larger_than_allowed(office):
    client = office.visit("officer")
    answer = post(client, "/requests", ids="x" * 1_100_000)
    assert answer.status_code == 413
    assert "<html" in answer.text
    large = {"json": {"ids": ["x" * 1_100_000]}, "headers": {"x-csrf-token": client.csrf}}
    answer = client.post("/api/v1/requests", **large)
    assert answer.status_code == 413
    assert "nothing was done" in answer.json()["error"]
    answer = post(client, "/requests", ids="x" * 900_000)
    assert answer.status_code == 409
    assert "at most 500 letters" in answer.text
    assert office.counter.books.requests() == []

    def pieces():
        for _ in range(30):
            yield b"ids=" + b"x" * 60_000

    answer = client.post(
        "/requests", content=pieces(), headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert answer.status_code == 413
    assert "nothing was done" in answer.text


def test_a_ledger_locked_by_another_process(office, monkeypatch):
    client = office.visit("officer")
    monkeypatch.setattr(service, "PATIENCE", 0.2)
    held = sqlite3.connect(office.counter.address, isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    try:
        assert client.get("/").status_code == 200  # reading goes on
        assert client.get("/what-if?pick=random").status_code == 200
        for answer in (client.get("/promises/1"), post(client, "/requests", ids="C-0001")):
            assert answer.status_code == 503
            assert "written by somebody else" in answer.text
    finally:
        held.execute("ROLLBACK")
        held.close()
    assert client.get("/promises/1").status_code == 200


def test_a_lost_worker_is_said_and_another_one_starts(office):
    client = office.visit("analyst")
    until(lambda: confirmed(client, "pick=random"))
    pool = office.desk.workers._pools["refits"]
    (process,) = pool._processes.values()
    process.kill()
    process.join()
    until(lambda: pool._broken)
    assert until(lambda: confirmed(client, "pick=random&seed=7"))["confirming"] == "done"

    waiting = office.desk.workers.refit(*office.desk.loaded.at_hand(None)[:2], np.arange(3))
    (process,) = office.desk.workers._pools["refits"]._processes.values()
    process.kill()
    with pytest.raises(HoldfastError, match="was lost"):
        result_of(waiting, 60)


def test_reports_are_made_kept_and_removed(office):
    client, viewer = office.visit("analyst"), office.visit("viewer")
    post(client, "/reports", title="For the board", max_deletions="2")
    job = until(lambda: [j for j in office.desk.jobs.all() if j.state == "done"])[0]
    page = viewer.get(f"/reports/{job.id}")
    assert "Do promised recourses survive erasure?" in page.text
    assert "sandbox" in page.headers["content-security-policy"]
    assert not re.search(r"C-\d{4}|X-\d{3}", page.text)
    assert viewer.get(f"/reports/{job.id}/file").headers["content-disposition"].startswith("attach")
    assert "For the board" in viewer.get("/reports").text
    assert viewer.post(f"/reports/{job.id}/end", data={"what": "remove"}).status_code == 403
    assert post(client, f"/reports/{job.id}/end", what="remove").status_code == 200
    assert viewer.get(f"/reports/{job.id}").status_code == 409


def test_a_job_is_cancelled_found_again_or_lost(office):
    client, jobs = office.visit("analyst"), office.desk.jobs
    begin = {"json": {"max_deletions": 100}, "headers": {"x-csrf-token": client.csrf}}
    number = client.post("/api/v1/reports", **begin).json()["id"]
    assert jobs.one(number).state == "running"
    found = desk_jobs.Jobs(office.home)  # as a desk that was started again sees it
    assert found.one(number).state == "running"
    headers = {"x-csrf-token": client.csrf}
    assert client.post(f"/api/v1/reports/{number}/cancel", headers=headers).status_code == 200
    assert jobs.one(number).state == "cancelled"
    until(lambda: not jobs._alive(number))
    assert client.post(f"/api/v1/reports/{number}/cancel", headers=headers).status_code == 409

    number = client.post("/api/v1/reports", **begin).json()["id"]
    desk_jobs._WAITED_FOR[-1].kill()
    desk_jobs._WAITED_FOR[-1].wait()
    job = until(lambda: (j := jobs.one(number)).state != "running" and j)
    assert job.state == "lost"
    assert "without a word" in client.get("/reports").text

    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(client.post("/api/v1/reports", **begin)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [202, 202, 409, 409]


def test_two_at_once_honour_a_request_once(office):
    one, two = office.visit("officer", "one"), office.visit("officer", "two")
    post(one, "/requests", ids=office.counter.breaker())
    answers = []

    def honour(client):
        answers.append(post(client, "/requests/honour", number="1", sure="true").text)

    threads = [threading.Thread(target=honour, args=(c,)) for c in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = ["nothing more was done" in text for text in answers]
    assert sorted(done) == [False, True]
    assert len([e for e in office.counter.books.log() if e.event == "erasure"]) == 1


def test_the_pages_and_the_api_say_the_same(office):
    client = office.visit("officer")
    answer = client.get("/api/v1/what-if?pick=random&k=4&seed=1").json()
    page = client.get("/what-if?pick=random&k=4&seed=1").text
    assert f"<b>{answer['predicted']:,}</b>of {answer['promises']:,} promises" in page
    schema = client.get("/api/v1/openapi.json").json()
    assert {"/api/v1/what-if", "/api/v1/requests/honour"} <= set(schema["paths"])
    assert all(path.startswith("/api/v1/") for path in schema["paths"])
