"""
A lender's first audit
======================

A lender turns people down and tells them what would change that. How many of these promises could
one erasure request break? Twenty lines from a table to a report.
"""

# %%
# A table of past loans
# ---------------------
#
# Made on this page, so that it runs anywhere. In your own work this is a file, read with pandas.

import numpy as np
import pandas as pd

rng = np.random.default_rng(1)
n = 600
loans = pd.DataFrame(
    {
        "age": rng.integers(18, 80, n),
        "income": rng.normal(3000, 800, n).round(),
        "savings": rng.exponential(2000, n).round(),
        "job": rng.choice(["none", "part", "full"], n),
    },
    index=[f"C-{i:04d}" for i in range(n)],
)
full = loans["job"] == "full"
merit = loans["income"] / 1000 + loans["savings"] / 2000 + 1.5 * full
repaid = np.where(merit + rng.normal(0, 1, n) > merit.median(), "yes", "no")
loans.head()

# %%
# The model, and the model that can forget
# ----------------------------------------
#
# Any fitted pipeline of scikit-learn. :func:`holdfast.erasable` takes it together with the data it was fitted
# on; from then on it can say what its scores would be without some of the rows.

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import holdfast as hf

past, applicants = loans[:450], loans[450:]
encode = make_column_transformer((OneHotEncoder(), ["job"]), remainder=StandardScaler())
fitted = make_pipeline(encode, LogisticRegression()).fit(past, repaid[:450])
model = hf.erasable(fitted, past, repaid[:450], favourable="yes")
print(model)

# %%
# What people are promised
# ------------------------
#
# The score is the log-odds of the good outcome; the target is even odds, 0. What people can change is
# inferred, and shown: read it before you use it.

rules = hf.Actionability.infer(past, savings={"direction": "up", "step": 100})
rules.describe()

# %%
given = hf.find_recourse(model, applicants, target=0.0, actionability=rules)
print(given)
for words in given.in_words()[:3]:
    print("-", words)

# %%
# The audit
# ---------
#
# It searches for the erasures that break most promises, refits to confirm what it found, compares with as many
# erased at random, and proves what it can.

result = hf.audit(model, given, max_deletions=8)
print(result.headline)

# %%
ax = result.plot()

# %%
# The curve as a table: the strongest attack found, predicted and refitted, beside random erasures.

result.curve.round(3)

# %%
# Who can be promised what
# ------------------------
#
# ``certified`` is the number of erasures a recourse provably survives, whoever they are; ``attacked`` the size of
# the smallest set found that breaks it. Where the two meet, no better certificate exists.

result.recourses[["certified", "attacked", "status"]].head()

# %%
# The report can be shared: it holds aggregates only. The case file names people and is for its owner.

import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
result.to_html(folder / "report.html")
result.case_file(folder / "case.html")
print(sorted(path.name for path in folder.iterdir()))

# %%
# The same from the command line, without writing Python::
#
#     holdfast audit --train loans.csv --label repaid --favourable yes --id customer \
#                    --model logistic --html report.html --case-file case.html
#
# Next: :doc:`hardening <plot_3_hardening>` says what would make the promises survive, and what it costs;
# :doc:`/audit` explains every number.
