"""What searches cost: memory bandwidth, refits saved, threads, memory. Run by `make bench`."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

import holdfast as hf
from bench_models import gaussian_problem, seconds
from holdfast.algebra.units import Units
from holdfast.searches.attack import AlgebraAttack
from holdfast.searches.greedy import greedy

STEPS = 14


def recourses(model, Q, overshoot=0.01):
    """Points past the target 0 by about ``overshoot`` score deviations."""
    rng = np.random.default_rng(1)
    scores, w = model.scores(Q), model.score_gradients(Q)
    goal = overshoot * scores.std() * rng.uniform(0.5, 1.5, size=len(Q))
    return Q + ((goal - scores) / np.sum(w**2, axis=1))[:, None] * w


def attack_on(model, points, threads):
    scores = model.scores(points)
    valid = scores >= 0
    units = Units(model.rows, "row")
    return AlgebraAttack(model.deletions(points[valid]), scores[valid], units, threads=threads)


def step_times(attack, repeat=7):
    """Seconds of each greedy step after the first, the running copy being in place."""
    order = greedy(attack, STEPS, None)[-1]
    times = np.full((repeat, STEPS - 1), np.inf)
    for i in range(repeat):
        attack.sweep([])
        for k in range(1, STEPS):
            start = time.perf_counter()
            attack.sweep(order[:k])
            times[i, k - 1] = time.perf_counter() - start
    return times.min(axis=0)


def linear():
    X, y, Q = gaussian_problem()
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    points = recourses(model, Q)
    n, q = len(X), len(points)
    source, sink = np.random.default_rng(0).normal(size=(n, q)), np.zeros((n, q))
    phi = np.column_stack([np.ones(n), X])
    queries = np.column_stack([np.ones(q), points])

    def refit(i):
        """One candidate by the normal equations, kept up to date: the fair slow way."""
        A = phi.T @ phi - np.outer(phi[i], phi[i])
        return queries @ np.linalg.solve(A, phi.T @ y - phi[i] * y[i])

    sample = range(0, n, n // 40)
    copy = seconds(lambda: np.copyto(sink, source), repeat=9)
    halves = [slice(0, n // 2), slice(n // 2, n)]
    with ThreadPoolExecutor(2) as pool:
        both = seconds(
            lambda: list(pool.map(lambda half: np.copyto(sink[half], source[half]), halves)), 9
        )
    with threadpool_limits(1):
        one = step_times(attack_on(model, points, 1))
        attack = attack_on(model, points, 1)
        greedy(attack, STEPS, None)
        whole = seconds(lambda: greedy(attack, STEPS, None), repeat=5)
        refits = seconds(lambda: [refit(i) for i in sample]) / len(sample) * n * STEPS
    two = step_times(attack_on(model, points, 2))
    soft = {}
    for threads in (1, 2):
        attack = attack_on(model, points, threads)
        attack.sweep([], 0.01)
        soft[threads] = seconds(lambda a=attack: a.sweep([], 0.01), repeat=5)
    print(f"\ngreedy, {STEPS} steps, n = {n:,}, d = 23, q = {q:,}, linear")
    print(f"  copy of C by numpy, one core                {copy * 1e3:8.2f} ms")
    print(f"  a greedy step, one core (median)            {np.median(one) * 1e3:8.2f} ms")
    print(f"  share of the copy's bandwidth               {copy / np.median(one):8.2f}")
    print(f"  all {STEPS} steps, one core, C included           {whole * 1e3:8.1f} ms")
    print(f"  normal-equation refits (40 timed, multiplied out) {refits:8.1f} s")
    print(f"  ratio {refits / whole:,.0f}x")
    print(
        f"  two threads: greedy step {np.median(one) / np.median(two):.2f}x faster, "
        f"soft sweep {soft[1] / soft[2]:.2f}x, numpy's copy {copy / both:.2f}x"
    )
    took = seconds(lambda: hf.search(model, points, 0.0, method="gates"))
    print(f"  gates, 1,000 steps                          {took:8.2f} s")
    took = seconds(lambda: hf.search(model, points, 0.0, method="best"))
    print(f"  best (portfolio, 1-swaps, all budgets)      {took:8.2f} s")
    return float(np.median(one))


def kernel(linear_step):
    X, y, Q = gaussian_problem(n=4_000)
    model = hf.erasable(hf.NTKRegressor(5.0).fit(X, y), X, y)
    points = recourses(model, Q)
    with threadpool_limits(1):
        step = np.median(step_times(attack_on(model, points, 1), repeat=3))
    share = step / (linear_step * len(X) * np.sum(model.scores(points) >= 0) / 8e6)
    print("\nNTK, n = 4,000, q = 1,000: a greedy step after set-up")
    print(f"  {step * 1e3:.2f} ms, {share:.2f} times a linear one of the same size of C")


MEMORY = """
import resource, numpy as np, holdfast as hf
from sklearn.linear_model import LinearRegression
from holdfast.searches.attack import AlgebraAttack
from holdfast.searches.greedy import greedy
from holdfast.algebra.units import Units
rng = np.random.default_rng(0)
n, q = 60_000, 1_000
X, Q = rng.normal(size=(n, 23)), rng.normal(size=(q, 23))
y = X[:, 0] + rng.normal(size=n)
model = hf.erasable(LinearRegression().fit(X, y), X, y)
small = AlgebraAttack(model.deletions(Q[:5]), np.ones(5), Units(model.rows, "row"))
greedy(small, 2, None)
with open("/proc/self/statm") as statm:
    before = int(statm.read().split()[1]) * resource.getpagesize()
greedy(AlgebraAttack(model.deletions(Q), np.ones(q), Units(model.rows, "row")), 14, None)
extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
print(f"  n = {n:,}, q = {q:,}: {extra / (8 * n * q):.2f} copies of the (q, n) block")
"""

STREAM = """
import resource, sys, time, numpy as np, holdfast as hf
from sklearn.linear_model import LinearRegression
from holdfast.algebra import running
running.RUNNING_COPY = 0
n = int(sys.argv[1])
rng = np.random.default_rng(0)
X, Q = rng.normal(size=(n, 50)), rng.normal(size=(1000, 50))
y = X[:, 0] + rng.normal(size=n)
model = hf.erasable(LinearRegression().fit(X, y), X, y)
points = Q[np.argsort(np.abs(model.scores(Q)))]
points = points[model.scores(points) >= 0]
points = np.vstack([points, points + 1e-3])[:1000]
start = time.perf_counter()
hf.search(model, points, 0.0, max_deletions=14, method="greedy")
took = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
each = took / n * 1e6
print(f"  n = {n:9,}: {took:7.1f} s, {each:5.1f} us per row, whole process {peak:.1f} GiB")
"""


def memory():
    print("\nExtra peak memory of a greedy search, linear")
    print(run(MEMORY), end="")
    print("\nStreaming (C never held), d = 50, q = 1,000, 14 greedy steps, linear, two threads")
    for n in (10_000, 100_000, 1_000_000):
        print(run(STREAM, str(n)), end="")


def run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    kernel(linear())
    memory()
