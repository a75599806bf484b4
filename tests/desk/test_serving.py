"""``holdfast serve`` as a command: it starts, says what is wrong, and ends without a trace."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from desk_at_hand import Served

from holdfast.cli import run


@pytest.fixture
def folder(desk, monkeypatch):
    monkeypatch.chdir(desk.folder)
    monkeypatch.delenv("HOLDFAST_LEDGER", raising=False)
    return desk.folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "what is the desk about?"),
        (["--ledger", "nowhere.db"], "there is no ledger"),
        (["--ledger", "train.csv"], "ledger"),
        (["--case", "nowhere.toml"], "nowhere.toml"),
        (["--ledger", "books.db", "--port", "70000"], "--port must be from 0 to 65535"),
        (["--ledger", "books.db", "--host", "nowhere.invalid"], "no address of this machine"),
        (["--ledger", "books.db", "--home", "train.csv"], "cannot keep the desk's files"),
        (["--demo", "--ledger", "books.db"], "leave out --ledger"),
    ],
)
def test_what_cannot_be_served(folder, capsys, arguments, said):
    before = sorted(p.name for p in folder.iterdir())
    assert run(["serve", *arguments]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""
    assert "Traceback" not in told.err
    after = sorted(p.name for p in folder.iterdir() if p.name != "books.db.desk")
    assert [name for name in after if not name.startswith("books.db-")] == before


def test_a_port_in_use(folder, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert run(["serve", "--ledger", "books.db", "--port", str(port)]) == 2
    assert f"port {port} is in use" in capsys.readouterr().err


def asked(served, place, cookie=""):
    port = int(served.base.rsplit(":", 1)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", place, headers={"Cookie": cookie})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def children(pid):
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid:
            found.append(int(place.name))
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are counted in /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_it_ends(folder, how):
    served = Served(folder, "--ledger", "books.db")
    cookie = asked(served, served.address[len(served.base) :]).getheader("set-cookie")
    cookie = cookie.split(";")[0]
    assert asked(served, "/what-if?pick=random", cookie).status == 200
    workers = children(served.process.pid)
    assert workers
    os.kill(served.process.pid, how)
    said = served.end()
    assert served.process.returncode == (0 if how == signal.SIGTERM else -signal.SIGKILL)
    assert ("the desk is closed" in said) == (how == signal.SIGTERM)
    end = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() and _lives(pid) for pid in workers):
        assert time.monotonic() < end, "a worker is still there"
        time.sleep(0.2)


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_demo_is_filled_once(tmp_path):
    from holdfast.desk.demo import filled
    from holdfast.ledger import Ledger

    address = filled(tmp_path / "demo")
    books = Ledger(address)
    states = books.status()
    assert states.promises["live"] > 20
    assert states.promises["mended"] > 0
    assert states.requests == {"completed": 1, "pending": 3}
    assert books.verify().faults == []
    lines = len(books.log())
    assert filled(tmp_path / "demo") == address
    assert len(books.log()) == lines
    books.close()


def test_without_the_extra_it_is_said_how_to_get_it(tmp_path):
    code = (
        "import sys; sys.modules['fastapi'] = None; from holdfast.cli import main; "
        "sys.argv = ['holdfast', 'serve', '--demo']; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install 'holdfast[web]'" in done.stderr
    assert list(tmp_path.iterdir()) == []
