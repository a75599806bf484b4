"""Weeks at a desk: promises, requests, and what erasures do to them."""

import datetime

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skops import io as skops

import holdfast as hf
from counter import settings_for
from holdfast.ledger.ground import loaded
from holdfast.ledger.judging import promises_held
from holdfast.ledger.records import book_of, certified_left, model_in_force
from holdfast.ledger.tables import Letter
from holdfast.models.solving import scores_or_nan


def honour(desk, *names, books=None):
    books = books or desk.books
    numbers = [request.id for request in books.receive(names)]
    return books.honour(numbers)


def scores_now(desk):
    """Live promises with their scores by the model in force, and its target."""
    with desk.books.database.reading() as session:
        version = model_in_force(session)
        ground = loaded(book_of(session), version, desk.books._places(session))
        held = promises_held(session, ground, set(), desk.books.today())
    live = ~held.broken_before
    ids = [line.id for line in held.lines]
    return pd.Series(scores_or_nan(ground.model, held.points), ids)[live], ground


def test_an_import_writes_every_promise_down(desk):
    found, issued = desk.promises(), pd.read_csv(desk.folder / "issued.csv")
    assert list(found["name"]) == list(issued["customer"])
    assert set(found["state"]) == {"live"}
    status = desk.books.status()
    assert status.promises == {"live": len(issued)}
    assert sum(status.certified_left.values()) + status.uncertified == len(issued)
    assert status.model["rows"] == 160
    assert desk.books.verify().faults == []


def test_two_weeks(any_desk):
    desk = any_desk
    first = honour(desk, desk.breaker())
    broken = int(first.outcome.breaks.sum())
    assert broken > 0
    week_one = desk.books.status()
    assert week_one.promises["live"] == len(first.outcome.held)
    assert week_one.promises["mended"] == broken
    assert week_one.letters == {"due": broken, "written": 0}
    assert len(desk.table()) == 159

    letters = desk.books.write_letters(desk.folder / "letters")
    assert len(letters) == broken
    assert desk.books.letters_sent() == broken
    desk.pass_days(7)
    second = honour(desk, desk.breaker(), desk.holder(inside=True), desk.holder(inside=False))
    scores, ground = scores_now(desk)
    assert (scores >= ground.target).all()  # whatever is live, and mended promises are, holds
    assert second.people_in_training == 2
    assert second.own_promises == 2
    status = desk.books.status()
    assert status.promises["told"] == broken
    assert status.promises["withdrawn"] == 2
    assert sum(status.promises.values()) == len(desk.promises())  # nothing left the books
    assert status.requests == {"completed": 4}
    assert status.model["rows"] == 157
    assert desk.books.verify().faults == []


def test_what_is_broken_is_as_a_full_refit_says(desk):
    name = desk.breaker()
    preview = desk.books.preview([desk.books.receive([name])[0].id])
    table = pd.read_csv(desk.folder / "train.csv")
    ground = scores_now(desk)[1]
    rest = table[table["customer"] != name]
    fresh = ground.model.without(np.flatnonzero(table["customer"] == name), start="scratch")
    held = preview.outcome.held
    refit = fresh.scores(held.points)
    np.testing.assert_allclose(preview.outcome.after, refit, rtol=1e-9)
    assert list(preview.outcome.breaks) == list(refit < ground.target)
    assert len(rest) == 159


def test_a_preview_writes_nothing(desk):
    number = desk.books.receive([desk.breaker()])[0].id
    before = desk.books.verify()
    first, second = desk.books.preview([number]), desk.books.preview([number])
    pd.testing.assert_frame_equal(first.outcome.broken(), second.outcome.broken())
    after = desk.books.verify()
    assert (before.head, before.content) == (after.head, after.content)
    done = desk.books.honour([number])
    pd.testing.assert_frame_equal(
        first.outcome.broken().drop(columns="certified"),
        done.outcome.broken().drop(columns="certified"),
    )


def test_broken_promises_stay_broken_until_mended(desk, monkeypatch):
    """Where no advice can be found the promise is broken, week after week, until it is told."""
    import holdfast.ledger.judging as judging

    def nothing(model, people, *rest, **more):
        given = hf.find_recourse(model, people, *rest, **more)
        given.valid[:] = False
        given.reason[:] = "nothing was found"
        return given

    monkeypatch.setattr(judging, "find_recourse", nothing)
    found = honour(desk, desk.breaker())
    broken = int(found.outcome.breaks.sum())
    assert desk.books.status().promises["broken"] == broken
    again = honour(desk, desk.breaker())
    standing = desk.books.status().promises["broken"]
    recovered = int(again.outcome.recovers.sum())
    assert standing == broken - recovered + int(again.outcome.breaks.sum())
    assert (~again.outcome.broken()["new"]).sum() == broken - recovered
    texts = desk.books.write_letters(desk.folder / "letters")
    assert len(texts) == standing
    assert {text.advice for text in texts} == {"none"}
    monkeypatch.undo()
    third = honour(desk, desk.breaker())  # advice can be found again, and is
    status = desk.books.status()
    assert "broken" not in status.promises
    more = int(third.outcome.breaks.sum()) - int(third.outcome.recovers.sum())
    assert status.promises["mended"] == standing + more
    desk.books.write_letters(desk.folder / "letters")
    desk.books.letters_sent()
    assert "mended" not in desk.books.status().promises


def test_erased_people_who_only_hold_a_promise(any_desk):
    desk = any_desk
    name = desk.holder(inside=False)
    before = desk.books.status().model
    found = honour(desk, name)
    assert (found.rows, found.own_promises, found.outcome) == (0, 1, None)
    after = desk.books.status()
    assert after.model == before
    assert after.promises["withdrawn"] == 1
    assert name not in set(desk.promises()["name"])
    assert desk.books.verify().faults == []


def test_an_unknown_id_is_never_fulfilled(desk):
    with pytest.raises(hf.HoldfastError, match="neither in the training table nor holding"):
        desk.books.receive(["C-9999"])
    assert desk.books.requests() == []
    request = desk.books.receive(["C-9999"], unknown=True)[0]
    with pytest.raises(hf.HoldfastError, match="nothing to erase, and nothing was done"):
        desk.books.honour([request.id])
    assert desk.books.requests()[0].state == "pending"
    refused = desk.books.refuse(request.id, "no data about this person is held")
    assert refused.state == "cancelled"
    with pytest.raises(hf.HoldfastError, match="closed"):
        desk.books.honour([request.id])
    assert desk.books.verify().faults == []


def test_a_request_is_honoured_once(desk):
    number = desk.books.receive([desk.breaker()])[0].id
    desk.books.honour([number])
    head = desk.books.verify().head
    again = desk.books.honour([number])
    assert list(again.done_before) == [number]
    assert again.requests == []
    assert desk.books.verify().head == head
    assert len(desk.table()) == 159


def test_the_same_request_twice(desk):
    name = desk.breaker()
    desk.books.receive([name])
    with pytest.raises(hf.HoldfastError, match="has asked already: request 1"):
        desk.books.receive([name])
    soon, somebody = desk.books.today() + datetime.timedelta(days=2), desk.holder(inside=True)
    with pytest.raises(hf.HoldfastError, match="in the future"):
        desk.books.receive([somebody], day=soon)
    assert len(desk.books.requests()) == 1


def test_due_dates_and_one_extension(desk):
    day = desk.books.today() - datetime.timedelta(days=31)
    number = desk.books.receive([desk.breaker()], day=day)[0].id
    assert desk.books.status().due[0]["late"]
    request = desk.books.extend(number, "many requests at once")
    assert request.due == day + datetime.timedelta(days=90)
    assert request.state == "in_progress"
    with pytest.raises(hf.HoldfastError, match="extended before"):
        desk.books.extend(number, "and again")
    with pytest.raises(hf.HoldfastError, match="needs its reason"):
        desk.books.extend(number, " ")
    assert not desk.books.status().due[0]["late"]
    assert desk.books.honour([number]).requests == [number]


def test_certificates_cover_all_erasures_since(desk):
    """k − j are left after j people, and whoever has some left is never broken: all of it."""
    first = desk.books.status()
    certified = desk.promises()["certified"]
    assert certified.max() == 3
    rng = np.random.default_rng(0)
    names = list(rng.choice(desk.table()["customer"], 6, replace=False))
    for done, name in enumerate(names, 1):
        with desk.books.database.reading() as session:
            left = certified_left(session, model_in_force(session))
        found = honour(desk, name)
        fallen = {found.outcome.held.lines[p].id for p in np.flatnonzero(found.outcome.breaks)}
        assert not [n for n in fallen if left.get(n, 0) >= 1]
        now = desk.promises()
        with desk.books.database.reading() as session:
            after = certified_left(session, model_in_force(session))
        old = now[(now["state"] == "live") & now["mends"].isna()]
        for number, k in old["certified"].items():
            assert after.get(number, -1) == max(int(k) - done, -1)
    assert desk.books.certify() == sum(desk.books.status().certified_left.values())
    assert desk.books.status().uncertified == 0
    assert first.uncertified == 0
    assert desk.books.verify().faults == []


def test_nobody_with_a_certificate_falls(desk):
    """The strongest rows there are, by brute force, for everybody certified to survive one."""
    found, ground = desk.promises(), scores_now(desk)[1]
    safe = found[found["certified"] >= 1]
    points = ground.frame(list(safe["point"]))
    for row in range(len(ground.names)):
        scores = ground.model.without([row]).scores(points)
        assert (scores >= ground.target).all()


def test_promises_expire_on_their_day(desk):
    issued = pd.read_csv(desk.folder / "issued.csv")
    today = desk.books.today()
    issued["income"] += 50.0  # other promises, which take the place of the first
    issued["expires"] = (today + datetime.timedelta(days=10)).isoformat()
    issued.loc[1, "expires"] = (today - datetime.timedelta(days=1)).isoformat()
    issued.to_csv(desk.folder / "second.csv", index=False)
    found = desk.books.import_case(settings_for(desk.folder, recourses=desk.folder / "second.csv"))
    filled = issued["income"].notna().sum()
    assert found.states["expired"] == 1
    assert found.replaced == filled - 1  # one that has expired takes nobody's place
    assert found.same == len(issued) - filled
    desk.pass_days(11)
    assert desk.books.status().overdue > 0
    honour(desk, str(desk.table()["customer"].iloc[5]))
    status = desk.books.status()
    assert status.overdue == 0
    assert status.promises["expired"] > 1
    assert desk.books.verify().faults == []


def test_the_same_promises_again_are_no_news(desk):
    before = desk.promises()
    found = desk.books.import_case(settings_for(desk.folder))
    assert (found.states, found.same, found.replaced) == ({}, len(before), 0)
    pd.testing.assert_frame_equal(desk.promises(), before)


def test_kept_and_withdrawn(desk):
    one, other = desk.holder(inside=True), desk.holder(inside=False)
    assert desk.books.mark([one], "kept", "loan granted") == 1
    assert desk.books.mark([other], "withdrawn") == 1
    with pytest.raises(hf.HoldfastError, match="holds no live promise"):
        desk.books.mark([one], "kept")
    with pytest.raises(hf.HoldfastError, match="not 'mended'"):
        desk.books.mark([one], "mended")
    status = desk.books.status()
    assert (status.promises["kept"], status.promises["withdrawn"]) == (1, 1)


def test_another_cutoff(desk):
    target = desk.books.status().model["target"]
    old = desk.promises()
    found = desk.books.replace_model(target=target + 0.2, reason="stricter")
    status = desk.books.status()
    assert status.model["target"] == target + 0.2
    assert int(found.outcome.breaks.sum()) == status.promises["mended"] > 0
    assert found.void == len(old)
    scores, ground = scores_now(desk)
    assert ground.target == target + 0.2
    assert (scores >= ground.target).all()
    assert status.model["erased_since_certified"] == 0
    assert desk.books.verify().faults == []
    with pytest.raises(hf.HoldfastError, match="nothing is new"):
        desk.books.replace_model(reason="none")


def test_a_model_of_ones_own_on_other_rows(desk):
    table = pd.read_csv(desk.folder / "train.csv").iloc[5:]
    numbers = ["age", "income", "savings"]
    X, y = table[numbers].fillna(0.0), table["merit"]
    table = table.assign(income=table["income"].fillna(0.0))
    table[["customer", *numbers, "merit"]].to_csv(desk.folder / "new.csv", index=False)
    skops.dump(make_pipeline(StandardScaler(), Ridge()).fit(X, y), desk.folder / "new.skops")
    found = desk.books.replace_model(
        desk.folder / "new.skops", train=desk.folder / "new.csv", reason="third quarter"
    )
    scores, ground = scores_now(desk)
    assert (scores >= ground.target).all()
    assert list(ground.train.X.columns) == numbers
    # promises keep what the model does not ask for any more
    assert {len(point) for point in desk.promises()["point"].dropna()} == {5}
    honour(desk, str(table["customer"].iloc[0]))
    assert desk.books.status().model["rows"] == len(table) - 1
    assert found.version == 2
    assert desk.books.verify().faults == []


def test_a_model_that_wants_columns_nobody_has_on_record(desk):
    table = pd.read_csv(desk.folder / "train.csv").assign(extra=1.0)
    table = table[["customer", "age", "extra", "merit"]]
    table.to_csv(desk.folder / "new.csv", index=False)
    fitted = Ridge().fit(table[["age", "extra"]], table["merit"])
    skops.dump(fitted, desk.folder / "new.skops")
    with pytest.raises(hf.HoldfastError, match="wants 'extra', which is not on record"):
        desk.books.replace_model(
            desk.folder / "new.skops", train=desk.folder / "new.csv", reason="more columns"
        )
    assert desk.books.status().model["version"] == 1


def test_subjects_own_several_rows(tmp_path):
    from counter import files_of_a_lender

    files_of_a_lender(tmp_path)
    for name in ("train.csv", "people.csv"):
        table = pd.read_csv(tmp_path / name)
        table["person"] = [f"P-{i // 2}" for i in range(len(table))]
        table.to_csv(tmp_path / name, index=False)
    settings = settings_for(tmp_path, subject="person")
    books = hf.Ledger(tmp_path / "books.db")
    books.create(certify=1)
    books.import_case(settings)
    number = books.receive(["P-3"])[0].id
    found = books.honour([number])
    assert (found.rows, found.people_in_training) == (2, 1)
    assert books.status().model["erased_since_certified"] == 1
    assert books.verify().faults == []
    with pytest.raises(hf.HoldfastError, match="neither"):
        books.receive(["C-0000"])
    books.close()


def test_words_stay_words_when_the_last_one_goes(tmp_path):
    """A column of codes where one person alone has a letter in it."""
    from counter import files_of_a_lender

    files_of_a_lender(tmp_path)
    for name in ("train.csv", "people.csv"):
        table = pd.read_csv(tmp_path / name)
        table["region"] = [str(1 + i % 3) for i in range(len(table))]
        table.loc[table["customer"] == "C-0007", "region"] = "4b"
        table.to_csv(tmp_path / name, index=False)
    books = hf.Ledger(tmp_path / "books.db")
    books.create(certify=0)
    books.import_case(settings_for(tmp_path, recourses=None, text=["region"]))
    books.honour([books.receive(["C-0007"])[0].id])
    books.honour([books.receive(["C-0008"])[0].id])  # the model is read back with its table
    assert books.verify().faults == []
    books.close()


def test_letters_that_do_not_hold_any_more_are_taken_back(desk, monkeypatch):
    honour(desk, desk.breaker())
    texts = desk.books.write_letters(desk.folder / "letters")
    pages = {path.name for path in (desk.folder / "letters").iterdir()}
    assert len(pages) == len(texts) + 1
    reader = texts[0].to
    honour(desk, reader)  # one reader is erased: their page goes, the others stay
    left = {path.name for path in (desk.folder / "letters").iterdir()}
    assert f"letter-{texts[0].number:05d}.html" not in left
    assert len(left) == len(pages) - 2
    with desk.books.database.reading() as session:
        assert session.get_one(Letter, texts[0].number).content is None
