"""
Promises that survive
=====================

Some promises break when one person is erased. What would it cost people to be promised something that no three
erasures can break?
"""

# %%
# The people, the model, the target
# ---------------------------------
#
# Scikit-learn's diabetes data: ten measurements, and how far the disease went in a year. A low prediction is good;
# recourse aims at a predicted 140 or less.

from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
train, people = X[:350], X[350:]
fitted = make_pipeline(StandardScaler(), Ridge()).fit(train, y[:350])
model = hf.erasable(fitted, train, y[:350], favourable="low")
rules = hf.Actionability.infer(
    train, bmi={"direction": "down", "low": 18.5, "step": 0.1}, bp={"direction": "down", "low": 70}
)

# %%
# As it is
# --------
#
# Promises that stop just past the target, 0.01 standard deviations of the scores, and what three erasures do.

given = hf.find_recourse(model, people, target=-140, actionability=rules, overshoot=0.01)
plan = hf.search(model, given, target=-140, max_deletions=3)
print(f"three erasures break {plan.rerun()[3]:.0%} of {int(given.valid.sum())} promises")

# %%
# The overshoot decides
# ---------------------
#
# The same search on promises made with more room.

room = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5]
broken = []
for overshoot in room:
    further = hf.find_recourse(model, people, target=-140, actionability=rules, overshoot=overshoot)
    broken.append(hf.search(model, further, target=-140, max_deletions=3).rerun())

# %%
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for k, style in ((1, "o:"), (3, "s-")):
    ax.semilogx(room, [100 * shares[k] for shares in broken], style, label=f"{k} erased")
ax.set(xlabel="overshoot (standard deviations of the scores)", ylabel="promises broken (%)")
ax.legend(frameon=False)

# %%
# Everybody the least they need
# -----------------------------
#
# The same larger overshoot for everybody makes many people do more than they must. ``margin`` looks for the
# cheapest recourse of each person that survives *every* deletion of three rows. It is proven, not only tried.

result = hf.harden(
    model, people, target=-140, survive=3, actionability=rules, mitigations=["uniform", "margin"]
)
print(result.recommendation)

# %%
result.table.round(3)

# %%
# The new promises are in ``result.mitigations["margin"].points``. A certificate for each of them:

margin = result.mitigations["margin"]
proof = hf.certify(model, margin.points, target=-140, max_deletions=3)
print(proof["certified"].value_counts().to_dict())

# %%
# On your own table: ``holdfast harden audit.toml --survive 3 --out hardened.csv``. :doc:`/harden` has every way
# that is measured, and what each gave on real data.
