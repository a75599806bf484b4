"""
The paper's figure in twenty lines
==================================

Figure 2 of Pawelczyk, Leemann, Biega and Kasneci (ICLR 2023): the share of recourses invalidated by up to 14
deletions, found by a greedy search, beside random deletions. Here on the small table that comes with
scikit-learn, at four overshoots. On the paper's own data ``holdfast reproduce`` draws all of its figures
(:doc:`/reproduction/README`).
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import holdfast as hf

X, y = load_diabetes(return_X_y=True, as_frame=True)
train, people = X[:350], X[350:]
model = hf.erasable(LinearRegression().fit(train, y[:350]), train, y[:350])

figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), sharey=True, layout="constrained")
for ax, overshoot in zip(axes, (0.001, 0.01, 0.05, 0.2), strict=True):
    given = hf.find_recourse(model, people, target=float(y.median()), overshoot=overshoot)
    for method, style in (("greedy-count", "-"), ("best", "--"), ("random", ":")):
        plan = hf.search(model, given, target=given.target, max_deletions=14, method=method)
        ax.plot(range(15), 100 * plan.rerun(), style, label=method)
    ax.set(title=f"overshoot {overshoot}", xlabel="rows deleted")
axes[0].set_ylabel("invalidated (%)")
axes[0].legend(frameon=False)

# %%
# ``greedy-count`` is the paper's Algorithm 1. It stalls where no single row breaks anybody; ``best`` goes on from
# there. What the paper does not vary is how far past the target recourses stop, and that decides: from left to
# right the same search on the same people breaks less and less.
