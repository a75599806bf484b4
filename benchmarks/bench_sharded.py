"""Sharded boosting: quality against shards against guarantee, on the paper's four data sets.

    python benchmarks/bench_sharded.py [--pictures docs/pictures] [--splits 3] [--data heloc ...]

LightGBM with its defaults behind the usual encoding, everything inside the shards. *Guarantee*: by
how much any k erasures can lower a score at most, by the bound that looks at nothing but what the
shards say, in deviations of the training scores, median over the held-out people below even odds
(the lowest tenth, where those are fewer). Beside the mean of the shards: their median (the same
erasures move it by k order statistics) and the mean without the tenth at either end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy.special import logit
from scipy.stats import trim_mean
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline

import holdfast as hf
from holdfast.models.recipe import front

SHARDS = (1, 10, 25, 50, 100, 200)
ERASED = (1, 3, 5)
TRIMMED = 0.1


def table(name: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Features, labels (numbers above their median are good), and whose each row is."""
    data = hf.load_dataset(name)
    y = np.asarray(data.y, dtype=float)
    good = (y > np.median(y)) if len(np.unique(y)) > 2 else (y == data.favourable)
    whose = np.arange(len(y)) if data.subjects is None else np.asarray(data.subjects)
    return data.X, good.astype(int), whose


def estimator(X: pd.DataFrame) -> object:
    """Encoding and boosting, as one."""
    numbers = [name for name in X if pd.api.types.is_numeric_dtype(X[name].dtype)]
    texts = [name for name in X if name not in numbers]
    boosting = LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)
    return make_pipeline(front(numbers, texts), boosting)


def score(p: np.ndarray) -> np.ndarray:
    """Probabilities as clipped log-odds."""
    return logit(np.clip(p, 1e-6, 1 - 1e-6))


def after(said: np.ndarray, k: int, how: str) -> np.ndarray:
    """The least the shards can say together once k of them say whatever they like."""
    worst = np.sort(said, axis=1)
    if how == "mean":
        return worst[:, : worst.shape[1] - k].sum(axis=1) / worst.shape[1]
    worst[:, worst.shape[1] - k :] = 0.0
    return np.median(worst, axis=1) if how == "median" else trim_mean(worst, TRIMMED, axis=1)


def together(said: np.ndarray, how: str) -> np.ndarray:
    """What the shards say together."""
    if how == "mean":
        return said.mean(axis=1)
    return np.median(said, axis=1) if how == "median" else trim_mean(said, TRIMMED, axis=1)


def measured(name: str, splits: int) -> list[dict[str, object]]:
    """A line for every number of shards, way of averaging and split."""
    X, y, whose = table(name)
    lines = []
    for split in range(splits):
        parts = GroupShuffleSplit(1, test_size=0.2, random_state=split).split(X, y, whose)
        train, test = next(parts)
        for shards in SHARDS:
            model = hf.ShardedClassifier(estimator(X), shards, random_state=split, n_jobs=2)
            model.fit(X.iloc[train], y[train], groups=whose[train])
            at_home, held_out = model.parts(X.iloc[train]), model.parts(X.iloc[test])
            for how in ("mean", "median", "trimmed"):
                unit = score(together(at_home, how)).std()
                p = together(held_out, how)
                below = p < max(0.5, np.quantile(p, 0.1))  # or the lowest tenth, if that is more
                line = {
                    "data": name,
                    "shards": shards,
                    "how": how,
                    "split": split,
                    "rows": len(train),
                    "auc": roc_auc_score(y[test], p),
                }
                for k in ERASED:
                    least = after(held_out[below], min(k, shards), how)
                    line[f"k={k}"] = float(np.median(score(p[below]) - score(least)) / unit)
                lines.append(line)
            print(pd.DataFrame(lines[-3:]).round(3).to_string(header=shards == 1), flush=True)
    return lines


def drawn(found: pd.DataFrame, folder: Path) -> None:
    """Quality and guarantee against the number of shards, one panel for each data set."""
    import matplotlib.pyplot as plt

    colours = {1: "#0f766e", 3: "#b45309", 5: "#7e3f98"}
    names = list(dict.fromkeys(found["data"]))
    for mode, ink, paper in (("light", "#1f2328", "white"), ("dark", "#e6edf3", "#0d1117")):
        style = {
            "text.color": ink,
            "axes.labelcolor": ink,
            "xtick.color": ink,
            "ytick.color": ink,
            "axes.edgecolor": ink,
            "axes.facecolor": paper,
            "figure.facecolor": paper,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 8,
        }
        with plt.rc_context(style):
            figure, panels = plt.subplots(
                2, len(names), figsize=(2.6 * len(names), 4.2), sharex=True, layout="constrained"
            )
            for column, name in enumerate(names):
                mine = found[(found["data"] == name) & (found["how"] == "mean")]
                by = mine.groupby("shards")
                top, bottom = panels[:, column]
                mean, low, high = by["auc"].mean(), by["auc"].min(), by["auc"].max()
                top.plot(mean.index, mean, "o-", color=ink, markersize=3)
                top.fill_between(mean.index, low, high, color=ink, alpha=0.15, linewidth=0)
                top.set_title(f"{name} ({mine['rows'].iloc[0]:,} rows)")
                for k, colour in colours.items():
                    fall = by[f"k={k}"].mean()
                    bottom.plot(
                        fall.index, fall, "o-", color=colour, markersize=3, label=f"k = {k}"
                    )
                bottom.set(xscale="log", yscale="log", xlabel="shards")
            panels[0, 0].set_ylabel("AUC")
            panels[1, 0].set_ylabel("largest fall (deviations)")
            panels[1, -1].legend(frameon=False)
            figure.savefig(folder / f"shards-{mode}.png", dpi=110)
            plt.close(figure)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--pictures", type=Path)
    asked.add_argument("--splits", type=int, default=3)
    asked.add_argument("--data", nargs="+", default=["admission", "heloc", "compas", "diabetes"])
    told = asked.parse_args()
    found = pd.DataFrame([line for name in told.data for line in measured(name, told.splits)])
    keys = ["data", "how", "shards"]
    print(
        found.drop(columns=["split", "rows"]).groupby(keys, sort=False).mean().round(3).to_string()
    )
    if told.pictures is not None:
        drawn(found, told.pictures)


if __name__ == "__main__":
    main()
