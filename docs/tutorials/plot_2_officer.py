"""
A data-protection officer's week
================================

Advice is given today, erasures come for years. The ledger keeps what was promised to whom, who asked to be erased
and by when, what each erasure broke, and who was told what. It needs the extra: ``pip install 'holdfast[ledger]'``.

Every step here is a command of the command line. This page runs them in a folder of its own, by a helper that
takes what you would type after ``holdfast``.
"""

# %%
import contextlib
import io
import shlex
import tempfile
from pathlib import Path

from sklearn.datasets import load_diabetes

from holdfast.cli import run

folder = Path(tempfile.mkdtemp())


def holdfast(line):
    """Run a command in the folder."""
    with contextlib.chdir(folder):
        return run(shlex.split(line))


# sphinx_gallery_thumbnail_path = "pictures/report-light.png"


# %%
# Before the week: a table, a model, promises
# -------------------------------------------
#
# 442 patients, ten measurements, and how far the disease went. 350 of them train a ridge regression; the others
# were told what would bring their prediction to the median. A settings file says so once.

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
table = X.assign(progression=y)
table.insert(0, "patient", [f"P-{i:04d}" for i in range(len(table))])
table[:350].to_csv(folder / "train.csv", index=False)
table[350:].drop(columns="progression").to_csv(folder / "people.csv", index=False)
(folder / "rules.toml").write_text(
    """
[features.bmi]
direction = "down"
low = 18.5
step = 0.1

[features.bp]
direction = "down"
low = 70.0
"""
)
(folder / "audit.toml").write_text(
    """
train = "train.csv"
label = "progression"
favourable = "low"
id = "patient"
model = "ridge"
people = "people.csv"
actionability = "rules.toml"
overshoot = 0.05
"""
)
with contextlib.redirect_stdout(io.StringIO()):  # it lists everybody
    code = holdfast("recourse audit.toml --out issued.csv --quiet")

# %%
# Monday: the books
# -----------------
#
# The ledger takes the table, the model and the promises. Every promise gets a certificate: how many erasures it
# provably survives.

code = holdfast("ledger init --sender 'Example Clinic' --certify 3")
code = holdfast("ledger import audit.toml --recourses issued.csv")
code = holdfast("ledger status")

# %%
# Tuesday: somebody asks to be erased
# -----------------------------------
#
# A request has a due date from the day it is received. The preview says what honouring it would do, and writes
# nothing.

code = holdfast("request add P-0017 P-0123")
code = holdfast("request preview --all")

# %%
# Wednesday: the requests are honoured
# ------------------------------------
#
# One transaction: the rows leave the table, everything is fitted again, every promise is judged again, and whoever's
# promise broke gets new advice. What is found is no ground to refuse or delay a request.

code = holdfast("request honour --all --by 'A. Officer'")

# %%
# Thursday: letters
# -----------------
#
# One page for everybody who has to be told something. No letter says that, or who, somebody was erased.

code = holdfast("letters --out letters")
print(sorted(path.name for path in (folder / "letters").iterdir())[:4])

# %%
code = holdfast("letters --told")

# %%
# The two who went have used up certificates of others: a promise that survives one more erasure, whoever goes,
# has nothing left after two. New ones are counted from the model in force.

code = holdfast("ledger certify")
code = holdfast("ledger status")

# %%
# Friday: the books prove themselves
# ----------------------------------
#
# The log is a chain of hashes and names nobody. The erased are in no table of the books, and in none of their bytes.

code = holdfast("ledger verify")
print("P-0017" in (folder / "holdfast.db").read_bytes().decode("latin-1"))

# %%
# Next week starts where this one ended. :doc:`/ledger` has states, certificates and what happens if something
# fails; :doc:`/desk` is the same in a browser.
