"""Reports made by audits in processes of their own, which outlive a restart of the desk.

A job's process holds a lock on a file of its own for as long as it lives: whoever starts the desk
again sees by it which jobs still run and which ended without saying so.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from holdfast.desk.home import Home, Job
from holdfast.desk.sources import CaseSource, LedgerSource, Source
from holdfast.errors import HoldfastError
from holdfast.files import Outputs
from holdfast.inert import one_line

RUNNING, DONE, FAILED, CANCELLED, LOST = "running", "done", "failed", "cancelled", "lost"

#: jobs that may run at the same time
AT_ONCE = 2

#: seconds between two signs of progress
TELLS = 0.3


class Jobs:
    """The reports of a desk."""

    def __init__(self, home: Home):
        self._home = home

    def all(self) -> list[Job]:
        """Every job, newest first; those that ended without a word are lost."""
        with self._home.reading() as session:
            found = list(session.execute(select(Job).order_by(Job.id.desc())).scalars())
        if any(job.state == RUNNING and not self._alive(job.id) for job in found):
            with self._home.writing() as session:
                found = list(session.execute(select(Job).order_by(Job.id.desc())).scalars())
                for job in found:
                    if job.state == RUNNING and not self._alive(job.id):
                        job.state, job.ended = LOST, self._home.clock()
                        job.message = "its process ended without a word: start it again"
        return found

    def one(self, number: int) -> Job:
        """A job by its number."""
        for job in self.all():
            if job.id == number:
                return job
        raise HoldfastError(f"there is no report {number}")

    def page(self, number: int) -> str:
        """A report that is finished."""
        job = self.one(number)
        if job.state != DONE:
            raise HoldfastError(f"report {number} is {job.state}: there is nothing to show")
        try:
            return self._file(number).read_text(encoding="utf-8")
        except OSError:
            raise HoldfastError(
                f"report {number} is not in its place any more: make it again"
            ) from None

    def start(self, title: str, source: Source, asked: dict[str, Any], by: str) -> int:
        """An audit begins; its number."""
        self.all()  # those that have ended are known to have
        if len(title) > 200 or one_line(title) != title:
            raise HoldfastError("a title has at most 200 letters, on one line")
        place = {"address": getattr(source, "address", None), "path": getattr(source, "path", None)}
        with self._home.writing() as session:
            running = select(func.count()).where(Job.state == RUNNING)
            if session.execute(running).scalar_one() >= AT_ONCE:
                raise HoldfastError(
                    f"{AT_ONCE} reports are being made: wait for one, or cancel it. Nothing was "
                    "done"
                )
            number = (session.execute(select(func.max(Job.id))).scalar() or 0) + 1
            job = Job(
                id=number,
                title=title.strip() or f"Audit of the {source.name}",
                source=source.name,
                asked=json.dumps(asked),
                by=by,
                state=RUNNING,
                began=self._home.clock(),
            )
            session.add(job)
            session.flush()
            lock = os.open(self._lock(number), os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                process = subprocess.Popen(  # noqa: S603 (ourselves)
                    [sys.executable, "-m", "holdfast.desk.jobs", str(self._home.folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=(lock,),
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                )
                os.pwrite(lock, str(process.pid).encode(), 0)
                said = {"number": number, "lock": lock, "asked": asked, **place}
                assert process.stdin is not None
                process.stdin.write(json.dumps(said).encode())
                process.stdin.close()
            finally:
                os.close(lock)
        _WAITED_FOR.append(process)
        _WAITED_FOR[:] = [p for p in _WAITED_FOR if p.poll() is None]
        return number

    def cancel(self, number: int) -> None:
        """A job ends before it is done."""
        self.one(number)
        with self._home.writing() as session:
            job = session.get_one(Job, number)
            if job.state != RUNNING:
                raise HoldfastError(f"report {number} is {job.state}: nothing was done")
            if self._alive(number):
                pid = int(self._lock(number).read_text() or "0")
                if pid > 1:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(pid, signal.SIGKILL)
            job.state, job.ended = CANCELLED, self._home.clock()

    def remove(self, number: int) -> None:
        """A report that is not kept any more."""
        if self.one(number).state == RUNNING:
            raise HoldfastError(f"report {number} is being made: cancel it first")
        with self._home.writing() as session:
            session.delete(session.get_one(Job, number))
            for file in (self._file(number), self._lock(number)):
                file.unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self._home.reports / f"report-{number}.html"

    def _lock(self, number: int) -> Path:
        return self._home.reports / f"job-{number}.lock"

    def _alive(self, number: int) -> bool:
        """Whether somebody holds the lock of a job."""
        try:
            handle = os.open(self._lock(number), os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False


#: processes of ours that have not been waited for yet: none stays behind as a zombie
_WAITED_FOR: list[subprocess.Popen[bytes]] = []


# in the job's process


def work(home: Home, number: int, source: Source, asked: dict[str, Any]) -> None:
    """Audit, write the report, say what became of it."""
    from holdfast.report import page

    said = [0.0]

    def tell(stage: str, done: float, total: float) -> None:
        now = time.monotonic()
        if now - said[0] >= TELLS:
            said[0] = now
            with _job(home, number) as job:
                job.stage, job.done = stage, done / total if total else 0.0

    try:
        result = source.audit(asked, tell)
        content = page(result.summary())
    except HoldfastError as wrong:
        with _job(home, number) as job:
            job.state, job.message, job.ended = FAILED, str(wrong), home.clock()
        return
    except Exception as failure:
        with _job(home, number) as job:
            job.state, job.ended = FAILED, home.clock()
            job.message = f"this should not have happened ({type(failure).__name__})"
        raise
    with Outputs() as out:
        out.text(home.reports / f"report-{number}.html", content, 0o600)
    with _job(home, number) as job:
        job.state, job.done, job.stage, job.ended = DONE, 1.0, "", home.clock()


@contextlib.contextmanager
def _job(home: Home, number: int) -> Iterator[Job]:
    """A job that is still wanted."""
    with home.writing() as session:
        job = session.get(Job, number)
        if job is None or job.state != RUNNING:
            os._exit(0)
        yield job


def main() -> None:
    """What the process of a job does: it is told on stdin what is asked."""
    home = Home(Path(sys.argv[1]))
    told = json.loads(sys.stdin.read())
    source: Source = (
        LedgerSource(told["address"]) if told["address"] is not None else CaseSource(told["path"])
    )
    work(home, int(told["number"]), source, told["asked"])


if __name__ == "__main__":
    main()
