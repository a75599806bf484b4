"""The same to the last bit on threads and on a cluster, whoever works and whoever is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import numpy as np
import pytest

import holdfast as hf
from cluster_of_processes import Slowly, cluster
from holdfast.scale.engines import DaskCluster, LocalThreads, engine_of
from tables_in_files import loans, written

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loans")
    return written(loans(6000, gaps=True), folder, files=3, group=250)


def scan_of(table):
    return hf.scan(table, label="paid", id="customer")


def audited(table, engine):
    model = hf.fit("ridge", scan_of(table), engine)
    people = model.X.iloc[:60].dropna()
    given = hf.find_recourse(model, people, target=1.0, overshoot=0.02)
    result = hf.audit(model, given, max_deletions=4, draws=3)
    return model.theta, [s.tolist() for s in result.plan.sets], result


def same(one, other) -> None:
    np.testing.assert_array_equal(one[0], other[0])
    assert one[1] == other[1]
    reports = [json.loads(found[2].to_json()) for found in (one, other)]
    for report in reports:
        for name in ("reference", "created"):  # drawn and written anew for every report
            report.pop(name)
    assert reports[0] == reports[1]
    np.testing.assert_array_equal(one[2].proof["certified"], other[2].proof["certified"])
    np.testing.assert_array_equal(one[2].proof["slack"], other[2].proof["slack"])
    np.testing.assert_array_equal(one[2].recourses["margin"], other[2].recourses["margin"])


@pytest.fixture(scope="module")
def on_one_thread(table):
    return audited(table, LocalThreads(1))


@pytest.mark.parametrize("threads", [2, 4])
def test_bit_for_bit_the_same_on_threads(table, on_one_thread, threads) -> None:
    same(audited(table, LocalThreads(threads)), on_one_thread)


def test_bit_for_bit_the_same_on_a_cluster_of_processes(table, on_one_thread, tmp_path) -> None:
    with cluster(tmp_path, workers=2) as found, distributed.Client(found.address) as client:
        client.wait_for_workers(2)
        same(audited(table, client), on_one_thread)


def test_a_worker_that_is_killed_changes_nothing(table, tmp_path) -> None:
    scan = scan_of(table)
    with cluster(tmp_path, workers=1) as found:
        worker = found.add_worker()
        with distributed.Client(found.address) as client:
            client.wait_for_workers(2)
            results = DaskCluster(client).map(Slowly(), scan.parts)
            got = [next(results) for _ in range(3)]
            found.kill(worker)
            got += list(results)
    assert got == [(part.first, part.rows) for part in scan.parts]


def test_a_worker_that_joins_is_given_work(table, tmp_path) -> None:
    scan = scan_of(table)
    with cluster(tmp_path, workers=1) as found, distributed.Client(found.address) as client:
        client.wait_for_workers(1)
        engine = DaskCluster(client)
        results = engine.map(Slowly(), scan.parts * 2)
        got = [next(results)]
        found.add_worker()
        client.wait_for_workers(2)
        assert engine.workers == 2
        got += list(results)
    assert got == [(part.first, part.rows) for part in scan.parts * 2]


def test_a_scheduler_that_is_lost_is_an_error_in_words(table, tmp_path) -> None:
    scan = scan_of(table)
    with cluster(tmp_path, workers=1) as found:
        client = distributed.Client(found.address, timeout=5)
        client.wait_for_workers(1)
        results = DaskCluster(client).map(Slowly(), scan.parts)
        next(results)
        threading.Timer(0.2, found.kill, [found.scheduler]).start()
        with pytest.raises(hf.HoldfastError, match="scheduler was lost"):
            list(results)
        client.close(timeout=1)


def test_what_is_wrong_with_a_block_is_said_by_the_worker(table, tmp_path) -> None:
    scan = scan_of(table)
    scan.numbers.append("nowhere")
    with (
        cluster(tmp_path, workers=1) as found,
        distributed.Client(found.address) as client,
        pytest.raises(hf.HoldfastError, match=r"row group 0 cannot be read"),
    ):
        hf.fit("ridge", scan, client)


def test_engines_by_name() -> None:
    assert engine_of(None).name == "threads"
    assert engine_of("threads").name == "threads"
    with pytest.raises(hf.HoldfastError, match="engine must be"):
        engine_of("spark")
    with pytest.raises(hf.HoldfastError, match="not threads"):
        engine_of("threads", "tcp://127.0.0.1:9")


def test_a_lost_result_stops_what_was_begun() -> None:
    begun: list[int] = []

    def work(block: int) -> int:
        begun.append(block)
        if block == 1:
            raise hf.HoldfastError("block 1")
        return block

    with pytest.raises(hf.HoldfastError, match="block 1"):
        list(LocalThreads(1).map(work, range(1000)))
    assert len(begun) < 10


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["worker", "scheduler"])
def test_a_command_whose_cluster_loses_somebody(table, tmp_path, lost) -> None:
    code = "from holdfast.cli import main; main()"
    options = ["--label", "paid", "--favourable", "high", "--id", "customer", "--model", "ridge"]
    options += ["--max-deletions", "2", "--draws", "2"]
    reports = []
    with cluster(tmp_path, workers=1) as found:
        for turn in range(2):
            worker, out = found.add_worker(), tmp_path / f"{turn}.json"
            where = ["--scheduler", found.address, "--json-file", str(out)]
            process = subprocess.Popen(
                [sys.executable, "-c", code, "audit", "--train", str(table), *options, *where],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
            )
            if turn:
                for line in process.stderr:
                    if "looking at the columns" in line:
                        break
                found.kill(worker if lost == "worker" else found.scheduler)
            said = process.communicate()[1]
            if turn and lost == "scheduler":
                assert process.returncode == 2
                assert "scheduler was lost" in said
                assert "Traceback" not in said
                assert not out.exists()
                return
            assert process.returncode == 0, said
            reports.append(json.loads(out.read_text()))
    for report in reports:
        for name in ("reference", "created"):
            report.pop(name)
    assert reports[0] == reports[1]
