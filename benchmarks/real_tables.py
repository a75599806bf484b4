"""The paper's four data sets as plain tables for benchmarks, encoded as in the reproduction."""

from __future__ import annotations

import holdfast as hf

NAMES = ("admission", "heloc", "compas", "diabetes")


def split(name: str):
    """80/20 split, scaled and one-hot encoded by the training part: X, y, held-out X and y."""
    data = hf.load_dataset(name)
    train, test = data.split(random_state=0)
    encoder = data.encoder().fit(data.X.iloc[train])
    X, held_out = encoder.transform(data.X.iloc[train]), encoder.transform(data.X.iloc[test])
    return X, data.y[train], held_out, data.y[test]
