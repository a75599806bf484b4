"""One person, several rows: an erasure request removes all of them.

Run it: ``python examples/by_subject.py``
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import holdfast as hf

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
visits = np.random.default_rng(0).integers(1, 4, len(X))  # everybody came one to three times
rows = np.repeat(np.arange(len(X)), visits)
noise = np.random.default_rng(1).normal(0, 1, (len(rows), X.shape[1])) * X.std().to_numpy() * 0.05
table = (X.iloc[rows] + noise).reset_index(drop=True)
labels = y.iloc[rows].to_numpy()
patients = [f"patient-{i:03d}" for i in rows]

model = hf.erasable(
    LinearRegression().fit(table, labels), table, labels, subjects=patients, favourable="low"
)
given = hf.find_recourse(model, X[:40], target=-140, overshoot=0.05)

by_row = hf.audit(model, given, max_deletions=3, unit="row")
by_person = hf.audit(model, given, max_deletions=3, unit="subject")
print("three rows erased:  ", by_row.headline)
print("three people erased:", by_person.headline)
print(by_person.critical.to_string(index=False))
