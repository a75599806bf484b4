"""A desk to try: its application in this process, or ``holdfast serve`` in one of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from holdfast.desk import jobs
from holdfast.desk.app import application
from holdfast.desk.home import Home
from holdfast.desk.service import Desk
from holdfast.desk.workers import Workers

__all__ = ["PASSWORD", "Office", "Served", "Workers", "post"]

PASSWORD = "correct horse battery"


class Office:
    """A desk on a lender's ledger, whose clock can be set; people come in by role."""

    def __init__(self, folder, ledger=None, case=None):
        self.later = 0.0
        self.home = Home(folder / "home", lambda: time.time() + self.later)
        self.home.create()
        self.desk = Desk(self.home, None if ledger is None else str(ledger), case)
        self.app = application(self.desk, port=1)

    def visit(self, role, name=None):
        """Somebody with a role, signed in."""
        name = name or role
        if name not in [user.name for user in self.desk.access.users()]:
            self.desk.access.add(name, role, PASSWORD, must_change=False)
        client = TestClient(self.app, raise_server_exceptions=False)
        answer = client.post(
            "/sign-in", data={"name": name, "password": PASSWORD}, follow_redirects=False
        )
        assert answer.status_code == 303
        client.csrf = re.search(r'data-csrf="([^"]+)"', client.get("/account").text)[1]
        return client

    def stranger(self):
        return TestClient(self.app, raise_server_exceptions=False)

    def close(self):
        for job in self.desk.jobs.all():
            if job.state == "running":
                self.desk.jobs.cancel(job.id)
        for process in jobs._WAITED_FOR:
            process.wait(30)
        self.desk.close()


def post(client, place, **fields):
    """A form sent from a page of the same visit."""
    return client.post(place, data={"csrf": client.csrf, **fields})


class Served:
    """``holdfast serve`` as a command."""

    def __init__(self, folder, *arguments):
        code = "import sys; from holdfast.cli import main; sys.exit(main())"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", "--port", "0", *map(str, arguments)],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = None
        for line in self.process.stdout:
            found = re.search(r"http://\S+", line)
            if found:
                self.address = found[0]
                break
        if self.address is None:
            raise AssertionError(self.process.stderr.read())
        self.base = self.address.split("/open")[0]

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()
        said = self.process.stderr.read()
        self.process.stderr.close()
        return said
