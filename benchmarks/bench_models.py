"""What the algebra of deletions costs, against doing it the slow way. Run by `make bench`.

Every figure is a ratio of two measurements of the same run: machines differ and are shared.
Refits are timed on a sample of candidates and multiplied out, which is said in the table.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np
from scipy import linalg
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

import holdfast as hf
from holdfast.algebra import kernel_functions as kernels


def seconds(work, repeat=1):
    """The fastest of a few runs."""
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def gaussian_problem(n=8_000, d=23, q=1_000):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(n, d)), rng.normal(size=(q, d))
    return X, X @ rng.normal(size=d) + rng.normal(size=n), Q


def linear_singles():
    from statsmodels.regression.linear_model import OLS
    from statsmodels.stats.outliers_influence import OLSInfluence

    X, y, Q = gaussian_problem()
    n = len(X)
    fitted = LinearRegression().fit(X, y)
    phi, queries = np.column_stack([np.ones(n), X]), np.column_stack([np.ones(len(Q)), Q])

    def algebra():
        hf.erasable(fitted, X, y).deletions(Q).single_effects()

    def refit(i):
        keep = np.delete(np.arange(n), i)
        theta = np.linalg.lstsq(phi[keep], y[keep], rcond=None)[0]
        return queries @ theta

    sample = range(0, n, n // 40)
    with threadpool_limits(1):
        ours = seconds(algebra, repeat=5)
        refits = seconds(lambda: [refit(i) for i in sample]) / len(sample) * n
        influence = OLSInfluence(OLS(y, phi).fit())
        theirs = seconds(lambda: influence.dfbetas)
    print("\nAll single-row effects, n = 8,000, d = 23, q = 1,000, linear, one core")
    print(f"  Holdfast, set-up included                        {ours * 1e3:9.1f} ms")
    print(f"  refit every candidate ({len(sample)} timed, multiplied out) {refits:9.1f} s")
    print(f"  statsmodels OLSInfluence.dfbetas                 {theirs:9.1f} s")
    print(f"  ratio to refitting {refits / ours:,.0f}x   to dfbetas {theirs / ours:,.0f}x")


def ntk_set_up(n=8_000):
    X, y, Q = gaussian_problem(n)
    fitted = hf.NTKRegressor(5.0).fit(X, y)

    def floor(matrix):
        """One Cholesky factorisation, one triangular inverse, one product with 1,000 queries."""
        factor, _ = linalg.lapack.dpotrf(matrix.T, lower=1, overwrite_a=1)
        inverse, _ = linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)
        return queries @ inverse

    def ours():
        hf.erasable(fitted, X, y).deletions(Q).dense()

    queries = kernels.ntk(Q, X)
    times = []
    for _ in range(3):
        matrix = kernels.ntk.gram(X)
        matrix[np.diag_indices_from(matrix)] += 5.0
        bare = seconds(lambda given=matrix: floor(given))
        del matrix
        times.append((seconds(ours), bare))
    best, bare = np.min(times, axis=0)
    print(f"\nNTK set-up to all of C, n = {n:,}, q = 1,000, all cores (best of 3 each)")
    print(f"  kernel, data check, factor, inverse, product     {best:9.2f} s")
    print(f"  Cholesky + triangular inverse + product alone    {bare:9.2f} s")
    print(f"  ratio {best / bare:.2f}")


MEMORY = """
import resource, time, numpy as np, holdfast as hf
n = {n}
rng = np.random.default_rng(0)
X, Q = rng.normal(size=(n, 23)), rng.normal(size=(1000, 23))
y = X[:, 0] + rng.normal(size=n)
start = time.perf_counter()
hf.erasable(hf.NTKRegressor(5.0).fit(X, y), X, y).deletions(Q).effect([1, 2, 3])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(f"  n = {{n:6,}}: fit and set-up {{time.perf_counter() - start:6.1f}} s, peak "
      f"{{peak / 2**30:5.2f}} GiB = {{peak / (8 * n * n):.2f}} n x n matrices")
"""


def ntk_memory():
    print("\nNTK peak memory, whole process (fit, set-up, one effect on 1,000 queries)")
    for n in (8_000, 17_000):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY.format(n=n)], capture_output=True, text=True, check=True
        )
        print(done.stdout, end="")


if __name__ == "__main__":
    linear_singles()
    ntk_set_up()
    ntk_memory()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\nBenchmark's own peak memory: {peak:.1f} GiB")
