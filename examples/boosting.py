"""A boosting model has no closed form for forgetting: Holdfast refits instead, and says so.

Run it: ``python examples/boosting.py``
"""

from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor

import holdfast as hf

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
train, people, labels = X[:300], X[300:], y[:300]
fitted = HistGradientBoostingRegressor(max_iter=30, random_state=0).fit(train, labels)

model = hf.erasable(fitted, train, labels, favourable="low")
print(model)

# a method that needs nothing but scores
given = hf.find_recourse(
    model, people, method="growing-spheres", target=-140, actionability="infer", overshoot=0.05
)
print(given)

result = hf.audit(model, given, max_deletions=3, draws=3, time_limit=10)
print(result.headline)
print("proven:", result.proof.summary())
