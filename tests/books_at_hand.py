"""Books to work on: filled once, copied for every test; on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from concurrent.futures import Future
from pathlib import Path

import pytest

import holdfast as hf
from counter import Desk, files_of_a_lender, settings_for


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A filled ledger with the files it was filled from."""
    folder = tmp_path_factory.mktemp("template")
    files_of_a_lender(folder)
    books = hf.Ledger(folder / "books.db", by="desk 1")
    books.create(certify=3, sender="Example Bank")
    books.import_case(settings_for(folder))
    books.close()
    return folder


@pytest.fixture
def desk(template, tmp_path):
    """A desk with books of its own, in SQLite."""
    shutil.copytree(template, tmp_path / "desk")
    made = Desk(tmp_path / "desk", tmp_path / "desk" / "books.db")
    yield made
    made.books.close()


@pytest.fixture(scope="session")
def server():
    """The address of a PostgreSQL server that lives as long as the tests."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        pytest.skip("no PostgreSQL server is installed (Debian: postgresql)")
    home = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    as_owner = []
    if getpass.getuser() == "root":  # a server refuses to run as root
        shutil.chown(home, "postgres")
        as_owner = ["runuser", "-u", "postgres", "--"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data, bin_ = home / "data", programs[-1].parent

    def run(*command):
        subprocess.run([*as_owner, *command], check=True, capture_output=True, cwd="/")

    run(bin_ / "initdb", "-D", data, "-U", "keeper", "--auth=trust", "--no-sync", "-E", "UTF8")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    run(bin_ / "pg_ctl", "-D", data, "-o", options, "-l", home / "log", "-w", "start")
    yield f"postgresql+psycopg://keeper:secret-word@127.0.0.1:{port}"
    run(bin_ / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def database(server):
    """A new database on the server."""
    return new_database(server)


def new_database(server):
    import sqlalchemy

    name = f"books_{uuid.uuid4().hex[:12]}"
    engine = sqlalchemy.create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{server}/{name}"


@pytest.fixture
def server_desk(database, template, tmp_path):
    """A desk with books on PostgreSQL."""
    shutil.copytree(template, tmp_path / "desk")
    os.remove(tmp_path / "desk" / "books.db")
    shutil.rmtree(tmp_path / "desk" / "books.db.files")
    books = hf.Ledger(database, by="desk 1")
    books.create(tmp_path / "desk" / "held", certify=3, sender="Example Bank")
    books.import_case(settings_for(tmp_path / "desk"))
    books.close()
    made = Desk(tmp_path / "desk", database)
    yield made
    made.books.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_desk(request):
    """The same on both."""
    return request.getfixturevalue("desk" if request.param == "sqlite" else "server_desk")


@pytest.fixture
def office(desk, tmp_path, request, monkeypatch):
    """The desk of ``holdfast serve`` on those books; ``surveyed``: it looks for the worst case."""
    from desk_at_hand import Office, Workers  # beside the tests that ask for it

    if request.node.get_closest_marker("surveyed") is None:  # an audit takes seconds
        monkeypatch.setattr(Workers, "survey", lambda *_: Future())
    else:
        survey = Workers.survey
        monkeypatch.setattr(Workers, "survey", lambda *asked: survey(*asked, reach=3))
    made = Office(tmp_path, desk.address)
    made.counter = desk
    yield made
    made.close()
