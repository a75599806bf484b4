"""``holdfast demo``: the whole audit on real data that comes with scikit-learn."""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast.audits import audit
from holdfast.audits.about import About
from holdfast.cli import screen
from holdfast.files import Outputs, writable
from holdfast.models.erasable import erasable
from holdfast.recourse import find_recourse
from holdfast.recourse.actionability import Actionability
from holdfast.report import page

STORY = (
    "442 people with diabetes, ten measurements each, and how far the disease went in a year. A "
    "ridge regression predicts that; a low prediction is good. 350 people train it, the other 92 "
    "are told what would bring their prediction to the median. Then some of the 350 are forgotten."
)


def run_demo(html: Path, quiet: bool) -> int:
    """Fit, promise, attack, prove, report."""
    writable(html)
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    train, people, labels = X[:350], X[350:], y[:350]
    with screen.showing(quiet) as (tell, remark):
        remark(STORY)
        fitted = make_pipeline(StandardScaler(), Ridge()).fit(train, labels)
        model = erasable(fitted, train, labels, favourable="low")
        rules = Actionability.infer(
            train,
            bmi={"direction": "down", "low": 18.5, "step": 0.1},
            bp={"direction": "down", "low": 70},
        )
        given = find_recourse(model, people, actionability=rules)
        result = audit(
            model,
            given,
            max_deletions=14,
            erasures=20,
            progress=tell,
            about=About(
                table="scikit-learn's diabetes data",
                method=given.method,
                rate="20/year",
                horizon="1 year",
            ),
        )
        summary = result.summary()
    with Outputs() as out:
        out.text(html, page(summary))
        with screen.reading():
            screen.remarks([] if quiet else [STORY])
            screen.audit_findings(result)
            screen.out().print()
    screen.places({"report": html})
    return 0
