"""What went wrong once: a rehearsal, a second import, an expired promise, a letter too late."""

import datetime
import shutil
import sqlite3
from pathlib import Path

import pandas as pd
import pytest

import holdfast as hf
from counter import Desk, files_of_a_lender, settings_for
from holdfast.cli import run
from holdfast.ledger import tidying
from lender import loans


def honour(desk, *names):
    return desk.books.honour([request.id for request in desk.books.receive(names)])


def test_no_certificate_where_the_preprocessing_is_kept(tmp_path):
    """A median is refitted when somebody is erased, and nothing is proven of that."""
    table = loans(n=70, seed=3).drop(columns="repaid")
    table.to_csv(tmp_path / "train.csv", index=False)
    assert table["income"].isna().any()
    books = hf.Ledger(tmp_path / "books.db")
    books.create(certify=3)
    books.import_case(
        settings_for(
            tmp_path, people=None, recourses=None, labels=None, overshoot=0.05, label="merit"
        )
    )
    status = books.status()
    assert status.certified_left == {}
    assert status.uncertified == status.promises["live"]
    books.close()


def test_books_do_not_sweep_away_what_others_own(desk, tmp_path):
    shutil.copy(desk.address, desk.folder / "rehearsal.db")
    rehearsal = hf.Ledger(desk.folder / "rehearsal.db")
    with pytest.raises(hf.HoldfastError, match="belongs to the ledger at 'books.db'"):
        rehearsal.receive([desk.holder(inside=True)])
    rehearsal.close()
    other = hf.Ledger(desk.folder / "other.db")
    with pytest.raises(hf.HoldfastError, match="belongs to the ledger"):
        other.create(desk.folder / "books.db.files")
    other.close()
    assert desk.books.verify().faults == []
    desk.books.close()
    shutil.move(desk.folder, tmp_path / "elsewhere")  # both moved together
    moved = Desk(tmp_path / "elsewhere", tmp_path / "elsewhere" / "books.db")
    assert honour(moved, moved.breaker()).rows == 1
    moved.books.close()


def test_an_export_takes_nobodys_place(desk):
    for name in ("books.db", "train.csv"):
        before = (desk.folder / name).read_bytes()
        with pytest.raises(hf.HoldfastError, match="exists already and is no export"):
            desk.books.export(desk.folder / name)
        assert (desk.folder / name).read_bytes() == before
    with pytest.raises(hf.HoldfastError, match="among the ledger's own files"):
        desk.books.export(desk.folder / "books.db.files" / "backup.zip")
    desk.books.export(desk.folder / "backup.zip")
    desk.books.export(desk.folder / "backup.zip")  # over itself it may


def test_letters_take_nobodys_place(desk):
    honour(desk, desk.breaker())
    (desk.folder / "summary.html").write_text("mine")
    with pytest.raises(hf.HoldfastError, match="exists already: name another folder"):
        desk.books.write_letters(desk.folder)
    assert (desk.folder / "summary.html").read_text() == "mine"


def test_importing_the_same_again_undoes_nothing(desk):
    erased = desk.breaker()
    honour(desk, erased)
    kept, back = desk.holder(inside=True), desk.holder(inside=False)
    desk.books.mark([kept], "kept")
    desk.books.mark([back], "withdrawn")
    before = desk.books.status()
    with pytest.raises(hf.HoldfastError, match="somebody in it who was erased since"):
        desk.books.import_case(settings_for(desk.folder))
    for name in ("train.csv", "people.csv"):
        table = pd.read_csv(desk.folder / name)
        table[table["customer"] != erased].to_csv(desk.folder / name, index=False)
    found = desk.books.import_case(settings_for(desk.folder))  # the target is the ledger's own
    assert found.states == {}
    assert found.replaced == 0
    assert desk.books.status().promises == before.promises
    assert desk.books.verify().faults == []


def expiring(desk, days):
    """Other promises to everybody, which end soon."""
    issued = pd.read_csv(desk.folder / "issued.csv")
    issued["income"] += 1.0
    issued["expires"] = (desk.books.today() + datetime.timedelta(days=days)).isoformat()
    issued.to_csv(desk.folder / "soon.csv", index=False)
    desk.books.import_case(settings_for(desk.folder, recourses=desk.folder / "soon.csv"))


def test_nobody_is_written_to_about_a_promise_that_expired(desk):
    expiring(desk, 2)
    number = desk.books.receive([desk.breaker()])[0].id
    desk.pass_days(10)
    assert len(desk.books.preview([number]).outcome.held) == 0
    found = desk.books.honour([number])
    assert len(found.outcome.held) == 0
    status = desk.books.status()
    assert set(status.promises) == {"expired", "withdrawn"}
    assert status.letters == {"due": 0, "written": 0}


def test_broken_promises_expire_too(desk):
    expiring(desk, 2)
    target = desk.books.status().model["target"]
    desk.books.replace_model(target=99.0, reason="nobody")
    assert desk.books.status().promises["broken"] > 0
    desk.pass_days(10)
    desk.books.replace_model(target=target, reason="as it was")
    assert "broken" not in desk.books.status().promises
    assert desk.books.write_letters(desk.folder / "letters") == []


def test_what_was_settled_since_is_not_told(desk):
    honour(desk, desk.breaker())
    texts = desk.books.write_letters(desk.folder / "letters")
    one, other = texts[0].to, texts[1].to
    desk.books.mark([one], "kept")
    desk.books.mark([other], "withdrawn")
    assert not (desk.folder / "letters" / f"letter-{texts[0].number:05d}.html").exists()
    left = desk.books.write_letters(desk.folder / "letters")
    assert {text.to for text in left} == {text.to for text in texts[2:]}
    assert desk.books.status().letters == {"due": 0, "written": len(left)}
    assert desk.books.letters_sent() == len(left)
    assert "mended" not in desk.books.status().promises
    assert desk.books.verify().faults == []


def test_a_promise_that_holds_again_is_live(desk):
    before, target = desk.promises(), desk.books.status().model["target"]
    desk.books.replace_model(target=99.0, reason="a mistake")
    assert desk.books.status().promises == {"broken": len(before)}
    found = desk.books.replace_model(target=target, reason="mended")
    assert int(found.outcome.recovers.sum()) == len(before)
    assert desk.books.status().promises == {"live": len(before)}
    assert desk.books.write_letters(desk.folder / "letters") == []
    assert desk.books.verify().faults == []


def test_promises_that_do_not_hold_when_they_come_are_mended(desk):
    issued = pd.read_csv(desk.folder / "issued.csv").iloc[:5]
    people = pd.read_csv(desk.folder / "people.csv").set_index("customer")
    for name in ("income", "savings", "job"):
        issued[name] = people.loc[issued["customer"], name].to_numpy()
    issued["savings"] += 1.0
    issued.to_csv(desk.folder / "low.csv", index=False)
    found = desk.books.import_case(settings_for(desk.folder, recourses=desk.folder / "low.csv"))
    assert found.states == {"broken": 5}
    assert desk.books.status().promises["mended"] == 5
    assert len(desk.books.write_letters(desk.folder / "letters")) == 5
    assert desk.books.verify().faults == []


def test_what_cannot_be_removed_yet_is_said(desk, monkeypatch, capsys):
    desk.books.export(desk.folder / "backup.zip")
    number = desk.books.receive([desk.breaker()])[0].id
    desk.books.close()
    monkeypatch.setattr(tidying, "exported_again", lambda *_: False)
    address = str(desk.address)
    assert run(["request", "honour", str(number), "--ledger", address]) == 1
    assert "backup.zip could not be tidied up yet" in capsys.readouterr().err
    monkeypatch.undo()
    assert desk.books.status().chores == 1
    desk.books.tidy()
    assert desk.books.status().chores == 0


def test_no_room_to_wipe_is_no_failure(desk, monkeypatch):
    number = desk.books.receive([desk.breaker()])[0].id
    monkeypatch.setattr(desk.books.database, "wipe", lambda: False)
    found = desk.books.honour([number])
    assert found.rows == 1
    assert found.left_over == [str(desk.address)]


def test_a_killed_export_is_on_record(desk, monkeypatch):
    """Wherever it is killed: what stands there, or may, is known before."""
    from holdfast.ledger import backup

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(backup, "exported", killed)
    with pytest.raises(KeyboardInterrupt):
        desk.books.export(desk.folder / "backup.zip")
    monkeypatch.undo()
    files = desk.books.forget()[1]
    assert [Path(file).name for file in files] == ["backup.zip"]


def test_a_restored_ledger_knows_its_letters(desk, tmp_path):
    honour(desk, desk.breaker())
    texts = desk.books.write_letters(desk.folder / "letters")
    desk.books.export(tmp_path / "backup.zip")
    other = hf.Ledger(tmp_path / "restored.db")
    other.create()
    other.import_export(tmp_path / "backup.zip")
    other.honour([other.receive([texts[0].to])[0].id])
    assert not (desk.folder / "letters" / f"letter-{texts[0].number:05d}.html").exists()
    other.close()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql+psycopg://u@127.0.0.1:1/db?password=hunter2",
        "postgresql+psycopg:/u:hunter2@127.0.0.1:1/db",
        "postgres:hunter2@here/db",
    ],
)
def test_no_password_is_ever_shown(address):
    with pytest.raises(hf.HoldfastError) as failure:
        hf.Ledger(address, wait=2).status()
    assert "hunter2" not in str(failure.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["request", "honour", "99999999999999999999999"], "there is no request"),
        (["request", "extend", "1", "--reason", "x", "--days", "9999999"], "from 1 to 3650"),
        (["request", "refuse", "1", "--reason", "x\udcff"], "no text"),
        (["ledger", "mark", "kept", "C-0001", "--by", "x\udcff"], "no text"),
        (["request", "add", "C-0002", "--received", "0001-01-01"], "more than ten years ago"),
        (["letters", "--out", "x", "--letter", "3"], "--letter goes with --told"),
        (["letters", "--out", "x", "--templates", "nowhere"], "no folder 'nowhere'"),
    ],
)
def test_more_nonsense(desk, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(desk.folder)
    monkeypatch.setenv("HOLDFAST_LEDGER", "books.db")
    honour(desk, desk.breaker())
    desk.books.receive([desk.holder(inside=True)])
    number = str(desk.books.requests(open_only=True)[0].id)
    arguments = [number if word == "1" else word for word in arguments]
    capsys.readouterr()
    assert run(arguments) == 2
    assert words in capsys.readouterr().err


def test_one_nobody_knows_does_not_stop_the_others(desk, capsys, monkeypatch):
    monkeypatch.chdir(desk.folder)
    desk.books.receive(["stranger"], unknown=True)
    desk.books.receive([desk.breaker()])
    assert run(["request", "honour", "--all", "--ledger", "books.db"]) == 0
    assert "1 request of people of whom nothing is held left out" in capsys.readouterr().err
    assert desk.books.status().requests == {"completed": 1, "pending": 1}


def test_counts_are_those_of_the_books(desk):
    found = honour(desk, desk.breaker(), desk.holder(inside=False))
    counts = pd.Series(found.left).value_counts().sort_index().to_dict()
    assert counts == desk.books.status().certified_left


def test_a_stranger_with_the_name_of_a_household(tmp_path):
    files_of_a_lender(tmp_path)
    train = pd.read_csv(tmp_path / "train.csv")
    train["hh"] = [f"X-{i // 2:03d}" for i in range(len(train))]
    train.to_csv(tmp_path / "train.csv", index=False)
    books = hf.Ledger(tmp_path / "books.db")
    books.create(certify=0)
    with pytest.raises(hf.HoldfastError, match="could not tell them apart"):
        books.import_case(settings_for(tmp_path, subject="hh", drop=["hh"]))
    books.close()


def test_days_of_promises_must_make_sense(desk):
    issued = pd.read_csv(desk.folder / "issued.csv")
    for given, ends, words in (
        ("2031-01-01", "", "in the future"),
        ("2026-01-02", "2026-01-01", "after it expires"),
    ):
        issued.assign(issued=given, expires=ends).to_csv(desk.folder / "odd.csv", index=False)
        with pytest.raises(hf.HoldfastError, match=words):
            desk.books.import_case(settings_for(desk.folder, recourses=desk.folder / "odd.csv"))


def test_many_changes_fit_on_one_page(tmp_path):
    from test_letters import DAY, WORDS, change, letter

    from holdfast.ledger.letters import _print
    from holdfast.report.letters import letter_page

    if shutil.which("chromium") is None:
        pytest.skip("no Chromium to print with")
    many = [change(f"a column with a long name {i}", 1.0, 1000.5 + i) for i in range(30)]
    told = letter(was=many, now=[{**each, "to": 2000.5} for each in many])
    page = letter_page(told, WORDS, "de", "Beispielbank", DAY)
    _print("chromium", page, tmp_path / "letter.pdf")
    assert (tmp_path / "letter.pdf").read_bytes().count(b"/Type /Page\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["letter.pdf"]


def test_a_foreign_database_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "mine.db") as connection:
        connection.execute("CREATE TABLE mine (a)")
    books = hf.Ledger(tmp_path / "mine.db")
    with pytest.raises(hf.HoldfastError, match="a database of something else"):
        books.create()
    books.close()


def test_a_ledger_behind_a_link(desk, tmp_path):
    (tmp_path / "link.db").symlink_to(desk.address)
    books = hf.Ledger(tmp_path / "link.db")
    assert books.verify().faults == []
    books.close()


def test_templates_that_fail_are_told_in_words(tmp_path):
    from test_letters import DAY, WORDS, letter

    from holdfast.report.letters import letter_page

    for text in ("{{ 1 / 0 }}", "{{ to + 1 }}"):
        (tmp_path / "xx.html").write_text(text)
        with pytest.raises(hf.HoldfastError, match="cannot be filled in"):
            letter_page(letter(), WORDS, "xx", "", DAY, tmp_path)


def test_german_without_english_in_it():
    from test_letters import DAY, change, letter, shown

    from holdfast.recourse.wording import Wording

    words = Wording.of({"rate": {"label": "Rate", "unit": "je 2.5 Jahre"}})
    told = letter(was=[], now=[change("job", None, "voll", False), change("rate", 1.0, 1000.5)])
    text = shown(told, words, "de", "", DAY)
    assert "job: von keiner Angabe zu voll wechseln" in text
    assert "auf 1.000,5 je 2.5 Jahre erhöhen" in text
    assert "none" not in text


def test_another_folder_only_with_ones_own_files(desk):
    """``files`` on books that exist: their own folder, moved, or nothing."""
    other = hf.Ledger(desk.folder / "other.db")
    other.create()
    with pytest.raises(hf.HoldfastError, match="belongs to the ledger at 'books.db'"):
        other.create(desk.folder / "books.db.files")
    other.close()
    with pytest.raises(hf.HoldfastError, match="the table on record is not at"):
        desk.books.create(desk.folder / "empty")
    shutil.move(desk.folder / "books.db.files", desk.folder / "moved")
    assert not desk.books.create(desk.folder / "moved")
    assert desk.books.verify().faults == []
    assert honour(desk, desk.breaker()).rows == 1


def test_an_empty_mark_is_nobodys(desk):
    (desk.folder / "books.db.files" / "ledger.txt").write_text("")
    assert honour(desk, desk.breaker()).rows == 1
    assert (desk.folder / "books.db.files" / "ledger.txt").read_text() == "books.db\n"


def test_pages_of_a_killed_writing_go_with_their_reader(desk, monkeypatch):
    """Killed after the pages stand there and before the books say so."""
    from holdfast.ledger import letters

    honour(desk, desk.breaker())
    texts = desk.books.write_letters(desk.folder / "letters")
    with sqlite3.connect(desk.address) as connection:
        connection.execute("UPDATE letters SET written = NULL")
    left = desk.folder / "letters" / ".holdfast-0123456789abcdef.html"
    left.write_text(texts[0].to)
    honour(desk, texts[0].to)
    names = {path.name for path in (desk.folder / "letters").iterdir()}
    assert f"letter-{texts[0].number:05d}.html" not in names
    assert left.name not in names
    assert letters.SUMMARY not in names


def test_nobody_comes_back_from_an_old_file(desk, tmp_path):
    name = desk.holder(inside=False)
    old = tmp_path / "old"
    old.mkdir()
    for file in ("people.csv", "issued.csv"):
        shutil.copy(desk.folder / file, old / file)
        table = pd.read_csv(desk.folder / file)  # cleaned before, as it should be
        table[table["customer"] != name].to_csv(desk.folder / file, index=False)
    honour(desk, name)
    desk.books.import_case(settings_for(desk.folder))  # no false alarm
    with pytest.raises(hf.HoldfastError, match="somebody in it who was erased since"):
        desk.books.import_case(
            settings_for(desk.folder, people=old / "people.csv", recourses=old / "issued.csv")
        )
    assert name not in set(desk.promises()["name"])


def test_a_folder_has_one_purpose(desk):
    honour(desk, desk.breaker())
    with sqlite3.connect(desk.address) as connection:
        place = str(desk.folder / "case")
        connection.execute(
            "INSERT INTO files (role, path, made) VALUES ('case file', ?, '')", (place,)
        )
    with pytest.raises(hf.HoldfastError, match="is on record as case file"):
        desk.books.write_letters(desk.folder / "case")
    with pytest.raises(hf.HoldfastError, match="the ledger's own"):
        desk.books.write_letters(desk.folder / "books.db.files")


def test_a_swapped_table_is_noticed(desk):
    from holdfast.files import sha256

    place = next((desk.folder / "books.db.files").glob("table-*"))
    place.write_bytes(place.read_bytes().replace(b"full", b"none", 1))
    with sqlite3.connect(desk.address) as connection:
        connection.execute("UPDATE models SET table_sha256 = ?", (sha256(place),))
    assert "the table of model 1 is not what the log says" in desk.books.verify().faults


def test_no_letters_about_what_expired(desk):
    expiring(desk, 2)
    honour(desk, desk.breaker())
    texts = desk.books.write_letters(desk.folder / "letters")
    assert texts
    desk.pass_days(10)
    assert desk.books.status().letters == {"due": 0, "written": 0}
    assert desk.books.write_letters(desk.folder / "more") == []
    desk.books.tidy()
    assert not list((desk.folder / "letters").glob("letter-*"))
    assert set(desk.books.status().promises) <= {"expired", "withdrawn"}


def test_an_import_settles_the_whole_chain(desk):
    honour(desk, desk.breaker())
    target = desk.books.status().model["target"]
    desk.books.replace_model(target=99.0, reason="a mistake")
    desk.books.replace_model(target=target, reason="as it was")
    mended = desk.promises().query("state == 'mended'")["name"].iloc[0]
    table = pd.read_csv(desk.folder / "issued.csv").query("customer == @mended")
    table.assign(income=99999.0).to_csv(desk.folder / "one.csv", index=False)
    erased = set(pd.read_csv(desk.folder / "train.csv")["customer"]) - set(desk.table()["customer"])
    for file in ("train.csv", "people.csv"):
        whole = pd.read_csv(desk.folder / file)
        whole[~whole["customer"].isin(erased)].to_csv(desk.folder / file, index=False)
    desk.books.import_case(settings_for(desk.folder, recourses=desk.folder / "one.csv"))
    theirs = desk.promises().query("name == @mended")["state"]
    assert sorted(theirs)[0] == "live"
    assert set(theirs) == {"live", "withdrawn"}
    assert mended not in {text.to for text in desk.books.write_letters(desk.folder / "letters")}


def test_a_renewed_promise_is_another(desk):
    table = pd.read_csv(desk.folder / "issued.csv")
    day = desk.books.today() + datetime.timedelta(days=100)
    table.assign(expires=day.isoformat()).to_csv(desk.folder / "renewed.csv", index=False)
    settings = settings_for(desk.folder, recourses=desk.folder / "renewed.csv")
    found = desk.books.import_case(settings)
    assert found.replaced == len(table)
    assert desk.books.import_case(settings).same == len(table)


def test_other_exports_are_not_written_over(desk, tmp_path):
    other = hf.Ledger(tmp_path / "other.db")
    other.create()
    other.export(tmp_path / "theirs.zip")
    with pytest.raises(hf.HoldfastError, match="no export of this ledger"):
        desk.books.export(tmp_path / "theirs.zip")
    desk.books.export(tmp_path / "mine.zip")
    (tmp_path / "mine.zip").write_bytes((tmp_path / "theirs.zip").read_bytes())
    honour(desk, desk.breaker())
    assert (tmp_path / "mine.zip").read_bytes() == (tmp_path / "theirs.zip").read_bytes()
    other.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ["ledger", "model", "--target", "3", "--reason", "x\udcff"],
        ["ledger", "forget", "\udcff"],
        ["ledger", "mark", "kept", "\udcff"],
        ["ledger", "verify", "--head", "\udcff"],
        ["ledger", "export", "\udcff.zip"],
        ["ledger", "status", "--ledger", "x\0"],
        ["request", "add", "", "--unknown"],
        ["request", "add", "--opendsr", "digits.json"],
        ["ledger", "import", "broken.zip"],
    ],
)
def test_still_more_nonsense(desk, capsys, monkeypatch, arguments):
    monkeypatch.chdir(desk.folder)
    monkeypatch.setenv("HOLDFAST_LEDGER", "books.db")
    (desk.folder / "digits.json").write_text('[{"a": ' + "9" * 5000 + "}]")
    (desk.folder / "broken.zip").write_bytes(b"PK\x05\x06" + b"\xff" * 18)
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert "should not have happened" not in said
    assert "Traceback" not in said
