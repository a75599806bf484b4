"""Audit a scikit-learn pipeline of your own.

Run it: ``python examples/own_pipeline.py``
"""

from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X[[name for name in X if name.startswith("mean")]]
train, people, labels, _ = train_test_split(X, y, test_size=0.3, random_state=0)

scale = make_column_transformer((StandardScaler(), list(X.columns)))
fitted = make_pipeline(scale, LogisticRegression(C=1.0, tol=1e-8)).fit(train, labels)

# 1. the fitted pipeline and the data it was fitted on: a model that can forget
model = hf.erasable(fitted, train, labels, favourable=1)
print(model)

# 2. what would it take for those the model calls malignant to be called benign?
given = hf.find_recourse(model, people, overshoot=0.05, actionability="infer")
print(given)
print("for example:", given.in_words().iloc[0])

# 3. which erasures would break these promises, and what is proven?
result = hf.audit(model, given, max_deletions=5)
print(result.headline)
print(result.curve[["predicted", "refitted", "random", "ceiling"]].round(3))

# 4. a page for your colleagues (aggregates only)
# result.to_html("report.html")
