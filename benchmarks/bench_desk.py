"""How fast the desk answers: one question, fifty people asking at once, ten thousand questions.

    python benchmarks/bench_desk.py [--seconds 60] [--clients 50] [--many 10000]

A table of 10,000 rows and 20 columns, 1,000 promises in a ledger. The desk is ``holdfast serve`` in
a process of its own; whoever asks does so over the loopback interface, from this one.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROWS, COLUMNS, PROMISES = 10_000, 20, 1_000


def books(folder: Path) -> Path:
    """A ledger with the promises of the benchmark."""
    import holdfast as hf
    from holdfast.cases.settings import made

    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(COLUMNS)]
    X = pd.DataFrame(rng.normal(size=(ROWS + int(2.03 * PROMISES), COLUMNS)), columns=names).round(
        4
    )
    y = X.to_numpy() @ rng.normal(size=COLUMNS) + rng.normal(size=len(X)) * 3
    X.insert(0, "id", [f"C-{i:06d}" for i in range(len(X))])
    X[:ROWS].assign(y=y[:ROWS].round(4)).to_csv(folder / "train.csv", index=False)
    X[ROWS:].to_csv(folder / "people.csv", index=False)
    told = {"train": folder / "train.csv", "label": "y", "id": "id", "model": "ridge"}
    told |= {"people": folder / "people.csv", "actionability": "none", "overshoot": 0.001}
    ledger = hf.Ledger(folder / "books.db", by="benchmark")
    ledger.create(certify=0)
    ledger.import_case(made(told, None))
    print("promises:", ledger.status().promises)
    ledger.close()
    return folder / "books.db"


class Served:
    """The desk, and its memory."""

    def __init__(self, folder: Path, ledger: Path):
        code = "import sys; from holdfast.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "serve", "--ledger", str(ledger), "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
        assert self.process.stdout is not None
        address = ""
        while not address:
            found = re.search(r"http://\S+", self.process.stdout.readline())
            address = found[0] if found else ""
        self.port = int(re.search(r":(\d+)/", address)[1])
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", address.split(str(self.port))[1])
        self.cookie = connection.getresponse().getheader("set-cookie").split(";")[0]

    def get(self, place: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", place, headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        return answer.read()

    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


async def asked(served: Served, place: str, times: list[float], wrong: list[str]) -> None:
    """One question over a connection of its own."""
    begun = time.perf_counter()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = f"GET {place} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {served.cookie}\r\n"
        writer.write(f"{head}HX-Request: true\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        if not answer.startswith(b"HTTP/1.1 200"):
            wrong.append(answer[:40].decode(errors="replace"))
    except OSError as failure:
        wrong.append(str(failure))
    times.append(time.perf_counter() - begun)


def question(number: int) -> str:
    if number % 2:
        return f"/what-if?pick=random&k={1 + number % 14}&seed={number}"
    people = "&".join(f"person=C-{(7 * number + j) % ROWS:06d}" for j in range(1 + number % 5))
    return f"/what-if?pick=people&{people}&room={number % 10 / 100}"


async def crowd(served: Served, clients: int, seconds: float) -> tuple[list[float], list[str]]:
    """Some clients, each asking again as soon as it is answered."""
    times: list[float] = []
    wrong: list[str] = []
    end = time.monotonic() + seconds

    async def one(first: int) -> None:
        number = first
        while time.monotonic() < end:
            await asked(served, question(number), times, wrong)
            number += clients

    await asyncio.gather(*(one(first) for first in range(clients)))
    return times, wrong


async def many(served: Served, count: int) -> list[str]:
    """Ten thousand questions, eight at a time."""
    times: list[float] = []
    wrong: list[str] = []

    async def one(first: int) -> None:
        for number in range(first, count, 8):
            await asked(served, question(number), times, wrong)

    await asyncio.gather(*(one(first) for first in range(8)))
    return wrong


def told(name: str, times: list[float]) -> None:
    middle, late = np.quantile(times, [0.5, 0.99]) * 1000
    print(f"{name}: median {middle:.1f} ms, 99th percentile {late:.1f} ms, {len(times):,} answers")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--many", type=int, default=10_000)
    given = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        served = Served(folder, books(folder))
        try:
            begun = time.perf_counter()
            served.get("/what-if?pick=random")
            print(f"first question, model and promises read: {time.perf_counter() - begun:.1f} s")
            begun = time.perf_counter()
            while b"being worked out" in served.get("/what-if?k=3"):
                time.sleep(0.5)
            print(f"worst case worked out: {time.perf_counter() - begun:.1f} s")
            alone, wrong = asyncio.run(crowd(served, 1, 10))
            told("one client", alone)
            assert not wrong, wrong[:3]
            before = served.megabytes()
            crowded, wrong = asyncio.run(crowd(served, given.clients, given.seconds))
            told(f"{given.clients} clients for {given.seconds:g} s", crowded)
            print(f"errors: {len(wrong)} {wrong[:3]}")
            middle = served.megabytes()
            wrong = asyncio.run(many(served, given.many))
            after = served.megabytes()
            print(
                f"memory: {before:.0f} MB, after the crowd {middle:.0f}, after {given.many:,} "
                f"more {after:.0f}; errors {len(wrong)}"
            )
        finally:
            served.process.terminate()
            served.process.wait()


if __name__ == "__main__":
    main()
