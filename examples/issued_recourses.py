"""Check promises made earlier, kept in a file, against erasure requests on the desk.

Run it: ``python examples/issued_recourses.py``
"""

import tempfile
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

import holdfast as hf

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X.index = pd.Index([f"patient-{i:03d}" for i in range(len(X))], name="id")
model = hf.erasable(Ridge(alpha=1.0).fit(X, y), X, y, favourable="low")
people = X[:60]

# what was promised last month, as the recourse system wrote it down: id, and the values to reach
folder = Path(tempfile.mkdtemp())
rules = hf.Actionability.infer(X, bmi={"direction": "down"}, bp={"direction": "down"})
promised = hf.find_recourse(model, people, target=-150, actionability=rules)
promised.points[promised.valid][["bmi", "bp", "s5"]].to_csv(folder / "issued.csv")

# read back, matched by id, checked
given = hf.issued_recourse(model, people, folder / "issued.csv", target=-150)
print(given)

# two people ask to be erased: whose promise breaks, and what to tell them now?
found = hf.impact(model, given, erase=["patient-169", "patient-383"])
print(found.headline)
print(found.broken[["promised", "now", "extra_cost"]].head(3).to_string())
