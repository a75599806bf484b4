"""The books themselves: the chain, copies of them, versions, two desks, bad addresses."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from counter import settings_for
from holdfast.ledger.chain import BEGINNING, canonical, digest
from holdfast.ledger.database import Database
from holdfast.ledger.tables import REVISIONS, Base

HERE = Path(__file__).parent

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_one_way_of_writing_a_value(value):
    assert json.loads(canonical(value)) == value
    assert digest(json.loads(canonical(value))) == digest(value)


def raw(desk):
    """The database, past all locks and keys."""
    connection = sqlite3.connect(desk.address)
    for when in ("UPDATE", "DELETE"):
        connection.execute(f"DROP TRIGGER log_{when}")
    return connection


@pytest.mark.parametrize("column", ["at", "by", "event", "body", "before", "hash"])
def test_a_changed_line_breaks_the_chain(desk, column):
    with raw(desk) as connection:
        connection.execute(f"UPDATE log SET {column} = 'x' || {column} WHERE id = 7")
    assert desk.books.verify().faults == ["line 7 of the log does not follow from those before it"]


def test_a_missing_line_and_a_cut_end(desk):
    head = desk.books.verify().head
    with raw(desk) as connection:
        connection.execute("DELETE FROM log WHERE id = (SELECT max(id) FROM log)")
    faults = desk.books.verify(head).faults
    assert "lines at its end are gone" in faults[0]
    assert any("the log says 'nothing'" in fault for fault in faults)  # a promise nobody issued
    with raw_again(desk) as connection:
        connection.execute("DELETE FROM log WHERE id = 3")
    assert "line 3" in desk.books.verify().faults[0]


def raw_again(desk):
    return sqlite3.connect(desk.address)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("UPDATE promises SET state = 'kept' WHERE id = 2", "promise 2 is 'kept', and the log"),
        ("UPDATE promises SET point = '[1,2,3,4,5]' WHERE id = 2", "what promise 2 promises"),
        ("DELETE FROM promises WHERE id = 2", "promise 2 is gone from the books"),
        ("UPDATE requests SET state = 'completed'", "request 1 is 'completed', and the log"),
        ("UPDATE promises SET certified = 99 WHERE id = 2", "the certificate of promise 2"),
        ("UPDATE promises SET person_id = (SELECT person_id FROM promises WHERE id = 3) "
         "WHERE id = 2", "promise 2"),
        ("UPDATE requests SET due = '2030-01-01'", "request 1 is due"),
        ("UPDATE models SET target = target - 1", "the target of model 1"),
        ("UPDATE requests SET person_id = person_id + 1", "request 1 is somebody else's"),
        ("UPDATE people SET name = 'x' || name WHERE id = 3", "person 3 has another name"),
        ("UPDATE promises SET person_id = NULL, point = NULL WHERE id = 2", "promise 2 is"),
        ("UPDATE promises SET reference = 'x' WHERE id = 2", "what promise 2 promises"),
        ("UPDATE promises SET expires = '2030-01-01' WHERE id = 2", "what promise 2 promises"),
        ("UPDATE promises SET factual = '[1]' WHERE id = 2", "what promise 2 promises"),
        ("UPDATE requests SET received = '2020-01-01'", "request 1 is not as it was received"),
        ("UPDATE books SET settings = json_set(settings, '$.due_days', 3000)", "the ledger's sett"),
    ],
)  # fmt: skip
def test_states_and_values_follow_from_the_log(desk, change, fault):
    desk.books.receive([desk.holder(inside=True)])
    with raw(desk) as connection:
        connection.execute(change)
    assert any(each.startswith(fault) for each in desk.books.verify().faults)


def test_the_log_is_append_only(any_desk):
    engine = any_desk.books.database._engine
    for statement in ("UPDATE log SET event = 'x'", "DELETE FROM log"):
        with (
            engine.connect() as connection,
            pytest.raises(sqlalchemy.exc.DBAPIError, match="append"),
        ):
            connection.execute(sqlalchemy.text(statement))


def test_no_name_is_in_the_log(any_desk):
    desk = any_desk
    name = desk.breaker()
    desk.books.honour([desk.books.receive([name])[0].id])
    people = set(desk.promises()["name"].dropna()) | {name}
    with desk.books.database.reading() as session:
        text = str(session.execute(sqlalchemy.text("SELECT * FROM log")).all())
    assert [each for each in people if each in text] == []


def test_files_that_are_not_those_on_record(desk):
    folder = desk.folder / "books.db.files"
    number = desk.books.receive([desk.breaker()])[0].id
    for kind, said in (("table", "the table"), ("model", "the model")):
        place = next(folder.glob(f"{kind}-*"))
        kept = place.read_bytes()
        place.write_bytes(kept.replace(b"0", b"1", 1))
        assert f"the {kind} in force is not the one on record" in desk.books.verify().faults[0]
        with pytest.raises(hf.HoldfastError, match=f"{said} at .* is not the one on record"):
            desk.books.honour([number])
        place.unlink()
        with pytest.raises(hf.HoldfastError, match=f"{said} on record is not at"):
            desk.books.preview([number])
        place.write_bytes(kept)
    assert desk.books.verify().faults == []


def test_a_table_that_changed_since(desk):
    """More promises with another table than the one on record."""
    table = (desk.folder / "train.csv").read_text().splitlines()
    (desk.folder / "train.csv").write_text("\n".join(table[:-1]) + "\n")
    with pytest.raises(hf.HoldfastError, match="not the table on record: 0 people are new and 1"):
        desk.books.import_case(settings_for(desk.folder))
    assert desk.books.verify().faults == []


def test_another_model_than_the_one_in_force(desk):
    """More promises, made under a model that is not the one on record."""
    other = settings_for(desk.folder, parameters={"alpha": 300.0})
    with pytest.raises(hf.HoldfastError, match="not the one in force .version 1.: scores differ"):
        desk.books.import_case(other)
    assert desk.books.verify().faults == []


def test_export_and_import_give_the_same_books(any_desk, tmp_path):
    desk = any_desk
    desk.books.honour([desk.books.receive([desk.breaker()])[0].id])
    desk.books.write_letters(desk.folder / "letters")
    hash_ = desk.books.export(tmp_path / "backup.zip")
    assert (tmp_path / "backup.zip").stat().st_mode & 0o777 == 0o600
    with pytest.raises(hf.HoldfastError, match="this ledger is not empty"):
        desk.books.import_export(tmp_path / "backup.zip")
    other = hf.Ledger(tmp_path / "other.db")
    other.create()
    assert other.import_export(tmp_path / "backup.zip") == hash_
    one, two = desk.books.verify(), other.verify()
    assert (one.head, one.content, one.faults) == (two.head, two.content, two.faults)
    assert other.status().promises == desk.books.status().promises
    found = other.honour([other.receive([desk.holder(inside=True)])[0].id])  # it lives on
    assert found.rows == 1
    other.close()


@pytest.mark.parametrize("part", ["books.json", "files/"])
def test_a_changed_export_is_refused(desk, tmp_path, part):
    desk.books.export(tmp_path / "backup.zip")
    with (
        zipfile.ZipFile(tmp_path / "backup.zip") as source,
        zipfile.ZipFile(tmp_path / "changed.zip", "w") as target,
    ):
        for name in source.namelist():
            data = source.read(name)
            if name.startswith(part):
                data = data.replace(b'"state":"live"', b'"state":"kept"', 1)
                data = data.replace(b"5", b"6", 1) if part == "files/" else data
            target.writestr(name, data)
    other = hf.Ledger(tmp_path / "other.db")
    other.create()
    with pytest.raises(hf.HoldfastError, match="changed since it was exported"):
        other.import_export(tmp_path / "changed.zip")
    assert other.status().model is None
    assert os.listdir(tmp_path / "other.db.files") == ["ledger.txt"]
    (tmp_path / "no.zip").write_bytes((tmp_path / "backup.zip").read_bytes()[:900])
    with pytest.raises(hf.HoldfastError, match="damaged|no ZIP|cannot"):
        other.import_export(tmp_path / "no.zip")
    other.close()


def test_migrations_end_at_the_tables(any_desk):
    with any_desk.books.database._engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert context.get_current_revision() == REVISIONS[-1]
        assert compare_metadata(context, Base.metadata) == []


@pytest.mark.parametrize("version", REVISIONS)
def test_filled_books_of_every_version_are_brought_up_to_date(tmp_path, version):
    """``books-VERSION.sql``: what SQLite's dump says of books that version filled."""
    script = (HERE / f"books-{version}.sql").read_text()
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.executescript(script)
    books = hf.Ledger(tmp_path / "old.db")
    if version != REVISIONS[-1]:
        with pytest.raises(hf.HoldfastError, match="earlier version"):
            books.status()
    assert not books.create()
    status = books.status()
    assert status.promises == {"live": 41, "mended": 32, "withdrawn": 1}
    assert status.requests == {"completed": 2, "pending": 1}
    faults = books.verify().faults  # the files are not there, and nothing else is wrong
    assert [fault.split(":")[0] for fault in faults] == [
        "the table in force is missing",
        "the model in force is missing",
    ]
    with books.database._engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    books.close()


def test_books_of_a_newer_version(desk):
    with sqlite3.connect(desk.address) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    books = hf.Ledger(desk.address)
    before = Path(desk.address).read_bytes()
    for act in (books.status, books.create, lambda: books.receive(["C-0001"])):
        with pytest.raises(hf.HoldfastError, match="newer version of Holdfast"):
            act()
    assert Path(desk.address).read_bytes() == before
    books.close()


HONOUR = """
import sys, holdfast as hf
books = hf.Ledger(sys.argv[1], by=sys.argv[2])
found = books.honour([int(sys.argv[3])])
print(len(found.requests), len(found.done_before))
"""


def test_two_desks_at_once(any_desk):
    """Two processes honour the same request: one does it, the other is told that it is done."""
    desk = any_desk
    number = desk.books.receive([desk.breaker()])[0].id

    def honour(by):
        command = [sys.executable, "-c", HONOUR, str(desk.address), by, str(number)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    with ThreadPoolExecutor() as pool:
        ends = list(pool.map(honour, ["desk 1", "desk 2"]))
    assert [end.stderr for end in ends] == ["", ""]
    assert sorted(end.stdout.split() for end in ends) == [["0", "1"], ["1", "0"]]
    assert len(desk.table()) == 159
    assert desk.books.status().requests == {"completed": 1}
    assert desk.books.verify().faults == []


def test_somebody_else_writes(any_desk):
    desk = any_desk
    other = desk.another("desk 2", wait=0.2)
    name = desk.holder(inside=True)
    with (
        desk.books.database.writing(),
        pytest.raises(hf.HoldfastError, match="being written by somebody else"),
    ):
        other.receive([name])
    assert other.receive([name])[0].id == 1
    other.close()


def test_a_look_while_somebody_writes(any_desk):
    other = any_desk.another("desk 2", wait=0.2)
    with any_desk.books.database.writing() as session:
        session.execute(sqlalchemy.text("UPDATE promises SET reason = 'x'"))
        assert other.status().promises == any_desk.books.status().promises
    other.close()


def test_a_clock_that_goes_backwards(desk):
    desk.pass_days(-1)
    with pytest.raises(hf.HoldfastError, match="the clock goes backwards"):
        desk.books.receive([desk.holder(inside=True)])
    assert desk.books.requests() == []
    desk.pass_days(1 - 60 / 86400)  # desks' clocks differ a little
    assert desk.books.receive([desk.holder(inside=True)])[0].id == 1
    assert desk.books.verify().faults == []


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://keeper:secret-word@here/books", "not on 'mysql'"),
        ("sqlite://", "without a name"),
        ("postgresql://keeper:secret-word@[::1/books", "cannot be read"),
        ("postgresql://keeper:secret-word@127.0.0.1:1/books", "the ledger at"),
        ("/nowhere/at/all/books.db", "there is no ledger at"),
    ],
)
def test_bad_addresses(address, said):
    with pytest.raises(hf.HoldfastError, match=said) as failure:
        hf.Ledger(address, wait=2).status()
    assert "secret-word" not in str(failure.value)


def test_a_wrong_password(server):
    user = server.replace("keeper:", "nobody:")
    with pytest.raises(hf.HoldfastError, match="nobody") as failure:
        hf.Ledger(f"{user}/postgres").status()
    assert "secret-word" not in str(failure.value)
    with pytest.raises(hf.HoldfastError, match="there is no ledger in"):
        hf.Ledger(f"{server}/postgres").status()


def test_files_that_are_no_ledger(tmp_path):
    (tmp_path / "notes.db").write_text("no database at all, and long enough to have a head " * 20)
    with pytest.raises(hf.HoldfastError, match="is no ledger"):
        hf.Ledger(tmp_path / "notes.db").status()
    with pytest.raises(hf.HoldfastError, match="cannot make a ledger"):
        hf.Ledger(tmp_path / "missing" / "books.db").create()
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE mine (a)")
    with pytest.raises(hf.HoldfastError, match="there is no ledger in"):
        hf.Ledger(tmp_path / "other.db").status()


def test_a_full_disk(desk, tmp_path):
    """Books on a disk of their own that has no room left: said so, nothing written."""
    small = tmp_path / "small"
    small.mkdir()
    size = sum(file.stat().st_size + 4096 for file in desk.folder.rglob("*"))
    options = f"size={size + 2**20}"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(small)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    books = hf.Ledger(small / "desk" / "books.db")
    try:
        shutil.copytree(desk.folder, small / "desk")
        number = books.receive([desk.breaker()])[0].id
        before = books.verify()
        with (small / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4096))
        with pytest.raises(hf.HoldfastError, match="disk is full|No space left|disk full"):
            books.honour([number])
        (small / "filler").unlink()
        after = books.verify()
        assert (after.head, after.content, after.faults) == (before.head, before.content, [])
        assert books.honour([number]).rows == 1
        assert books.verify().faults == []
        assert len(list((small / "desk" / "books.db.files").glob("*-2-*"))) == 2
    finally:
        books.close()
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_what_is_open_to_whom(desk):
    assert Path(desk.address).stat().st_mode & 0o777 == 0o600
    assert (desk.folder / "books.db.files").stat().st_mode & 0o777 == 0o700
    for file in (desk.folder / "books.db.files").iterdir():
        assert file.stat().st_mode & 0o777 == 0o600


def test_sqlite_is_set_up_as_said(desk):
    with desk.books.database._engine.connect() as connection:
        pragma = connection.connection.driver_connection
        asked = ("journal_mode", "foreign_keys", "secure_delete", "synchronous")
        found = [pragma.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]
    assert found == ["wal", 1, 1, 2]


def test_an_address_is_a_path_or_a_url(tmp_path):
    for address in (tmp_path / "a b?.db", f"sqlite:///{tmp_path / 'c.db'}"):
        books = hf.Ledger(address)
        assert books.create()
        assert not books.create()
        assert books.status().promises == {}
        books.close()
    assert {path.name for path in tmp_path.glob("*.db")} == {"a b?.db", "c.db"}
    assert Database(tmp_path / "x.db").file == tmp_path / "x.db"
    assert len(BEGINNING) == 64
