"""``make demo``: fit a model, forget some people, compare predicted with refitted scores."""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import holdfast as hf


def main() -> None:
    """Print what the worst single deletions do to 20 scores, by algebra and by refitting."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    train, queries = X[:400], X[400:420]
    model = hf.erasable(LinearRegression().fit(train, y[:400]), train, y[:400])

    start = time.perf_counter()
    deletions = model.deletions(queries)
    effects = deletions.single_effects()
    took = time.perf_counter() - start

    before = model.scores(queries)
    print(f"A model fitted on {len(train)} people scores {len(queries)} others.")
    print(f"What each of {len(train)} erasures alone would do to them: {took * 1e3:.1f} ms.\n")
    print("erased row   score changed most   before   after, predicted   after, refitted")
    worst = np.argsort(-np.abs(effects).max(axis=0))[:5]
    for row in worst:
        j = int(np.abs(effects[:, row]).argmax())
        predicted = before[j] - effects[j, row]
        refitted = model.without(row).scores(queries)[j]
        print(f"{row:10d}   {j:18d}   {before[j]:6.2f}   {predicted:16.6f}   {refitted:15.6f}")
    gone = worst.tolist()
    honest = before - model.without(gone).scores(queries)
    error = np.max(np.abs(deletions.effect(gone) - honest)) / np.max(np.abs(honest))
    print(f"\nAll five erased together: largest change {np.abs(honest).max():.2f} points; the")
    print(f"prediction is off by {error:.0e} of it. No model was refitted to predict it.")


if __name__ == "__main__":
    main()
