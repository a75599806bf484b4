"""hf.audit: every number against the slow honest way, and nothing personal in what is shared."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.audits.likelihood import erasures_in
from holdfast.report.schema import FEWEST, AuditSummary
from lender import loans

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X, y = X[:200], y[:200]
NAMED = X.set_axis([f"person-{i}" for i in range(len(X))], axis=0)


def made(estimator=None, people=80, overshoot=0.05, subjects=None, **options):
    fitted = (estimator or make_pipeline(StandardScaler(), Ridge(30.0))).fit(NAMED, y)
    model = hf.erasable(fitted, NAMED, y, subjects=subjects, favourable="low")
    given = hf.find_recourse(
        model, NAMED[:people], target=-140, overshoot=overshoot, actionability="infer"
    )
    options = {"max_deletions": 4, "draws": 5, **options}
    return model, given, hf.audit(model, given, **options)


@pytest.fixture(scope="module")
def audited():
    return made(erasures=20, cohorts=np.where(X["age"] > 50, "old", "young"))


def test_curve_is_what_refits_say(audited):
    model, given, result = audited
    points = given.points[given.valid]
    for k in range(5):
        rows = result.plan.sets[k]
        for column, refit in (("refitted", True), ("frozen", False)):
            after = model.without(rows, refit_preprocessing=refit).scores(points)
            share = float(np.mean(after < -140)) if k else 0.0
            assert result.curve.loc[k, column] == pytest.approx(share, abs=1e-12)
    assert (result.curve["predicted"] == result.curve["frozen"]).all()  # the algebra is exact
    ceilings = result.curve["ceiling"].dropna()  # for the whole pipeline, where it is proven
    assert len(ceilings) >= 2
    assert (ceilings >= result.curve["refitted"][ceilings.index] - 1e-12).all()
    assert ceilings.is_monotonic_increasing
    assert (result.curve["random_low"] <= result.curve["random_high"]).all()


def test_ceiling_holds_for_every_pair_of_rows():
    model, given, result = made(LinearRegression(), max_deletions=2, people=30)
    points = given.points[given.valid]
    before = model.scores(points)
    deletions = model.deletions(points)
    worst = [0.0, 0.0, 0.0]
    singles = deletions.single_effects()
    worst[1] = float(np.mean(before[:, None] - singles < -140, axis=0).max())
    rng = np.random.default_rng(0)
    for _ in range(3000):
        pair = rng.choice(200, 2, replace=False)
        worst[2] = max(worst[2], float(np.mean(before - deletions.effect(pair) < -140)))
    assert result.ceiling(1) >= worst[1] - 1e-12
    assert result.ceiling(1) == pytest.approx(result.share_broken(1))  # and it is attained
    ceiling = result.ceiling(2)  # None: nothing less than everything is proven
    assert ceiling is None or ceiling >= worst[2] - 1e-12


def test_recourses_say_when_each_breaks(audited):
    model, given, result = audited
    for k in (1, 4):
        after = model.without(result.plan.sets[k]).scores(given.points.loc[result.recourses.index])
        at = result.recourses["broken_at"]
        broken_now = pd.Series(after < -140, index=at.index)
        assert (at[broken_now] <= k).all()
    assert (result.recourses["margin"] >= 0).all()
    assert result.recourses["witness"].map(len).le(4).all()
    assert set(result.critical["id"]) <= set(NAMED.index)
    alone = result.critical.iloc[0]
    row = list(NAMED.index).index(alone["id"])
    after = model.without(row, refit_preprocessing=False).scores(given.points[given.valid])
    assert alone["breaks_alone"] == pytest.approx(np.mean(after < -140))


def test_cohorts_are_refits(audited):
    model, given, result = audited
    for line in result.cohorts.itertuples():
        old = line.cohort == "old"
        rows = np.flatnonzero((X["age"] > 50).to_numpy() == old)
        assert line.rows == len(rows)
        after = model.without(rows).scores(given.points[given.valid])
        assert line.refitted == pytest.approx(np.mean(after < -140))


def test_likelihood_brackets_its_draws(audited):
    found = audited[2].likelihood
    assert found.erasures == 20
    for band in (found.random, found.bootstrap):
        assert 0 <= band.low <= band.mean <= band.high <= 1
        assert band.draws == 5
    assert found.worst >= audited[2].share_broken(4) - 1e-12


def test_rates_and_horizons():
    assert erasures_in("40/week", "26w") == 1040
    assert erasures_in("1/day", "1 year") == 365
    assert erasures_in("2.5 / month", "4 months") == 10
    for rate, horizon in (("40", "26w"), ("40/fortnight", "1w"), ("40/week", "w"), ("0/day", "1d")):
        with pytest.raises(hf.HoldfastError):
            erasures_in(rate, horizon)


def test_the_same_seed_gives_the_same_audit(audited):
    again = made(erasures=20, cohorts=np.where(X["age"] > 50, "old", "young"))[2]
    one, two = audited[2], again
    for name in ("critical", "bounds", "agreement", "cohorts", "overshoots"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(two, name))
    proofs = ["ceiling"]  # what is proven hangs on the time there was
    pd.testing.assert_frame_equal(one.curve.drop(columns=proofs), two.curve.drop(columns=proofs))
    assert (one.likelihood, one.action) == (two.likelihood, two.action)


@pytest.mark.parametrize(
    "estimator",
    [
        LinearRegression(),
        hf.NTKRegressor(beta=5.0),
        make_pipeline(StandardScaler(), hf.NTKRegressor(beta=5.0)),
        make_pipeline(
            StandardScaler(),
            MLPRegressor(
                hidden_layer_sizes=(3,),
                activation="tanh",
                solver="lbfgs",
                alpha=10,
                max_iter=5000,
                random_state=0,
            ),
        ),
    ],
    ids=lambda e: repr(e)[:30],
)
@pytest.mark.filterwarnings("ignore::holdfast.DriftWarning")
def test_every_family_can_be_audited(estimator):
    result = made(estimator, people=40, max_deletions=2)[2]
    summary = result.summary()
    again = AuditSummary.model_validate(json.loads(result.to_json()))
    assert again.model_copy(update={"created": summary.created}) == summary
    assert "confirmed by refitting" in result.headline


def test_a_model_without_the_algebra():
    estimator = HistGradientBoostingRegressor(max_iter=10, random_state=0).fit(NAMED, y)
    model = hf.erasable(estimator, NAMED, y, favourable="low")
    given = hf.find_recourse(model, NAMED[:30], method="growing-spheres", target=-140)
    result = hf.audit(model, given, max_deletions=2, draws=2)
    assert result.bounds.empty
    assert result.explained is None
    assert result.overshoots is None
    assert result.ceiling(2) is None or result.ceiling(2) >= result.share_broken(2)
    assert "<svg" in result.to_html()


def test_classifiers_and_subjects():
    table = loans(160)
    features = table[["age", "savings"]].assign(full=(table["job"] == "full") * 1.0)
    fitted = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(
        features, table["repaid"]
    )
    owners = np.repeat(np.arange(80), 2)
    model = hf.erasable(fitted, features, table["repaid"], subjects=owners, favourable="yes")
    given = hf.find_recourse(model, features[:60], overshoot=0.02)
    result = hf.audit(model, given, max_deletions=2, unit="subject", draws=3)
    assert set(result.critical["id"]) <= {str(i) for i in range(80)}
    assert result.counts["units"] == 80
    rows = result.plan.sets[2]
    assert len(rows) == 4
    after = model.without(rows).scores(given.points[given.valid])
    assert result.curve.loc[2, "refitted"] == pytest.approx(np.mean(after < 0))


def test_plain_points_do_too():
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    close = X[model.scores(X) >= 150].to_numpy()
    result = hf.audit(model, close, target=150, max_deletions=2, draws=2)
    assert "change" not in result.recourses
    assert result.action is None
    assert "<svg" in result._repr_html_()


def personal_values(frame):
    """Texts by which one person's row could be told."""
    return {str(v) for v in frame.to_numpy().ravel() if len(str(v)) > 5}


def test_nothing_personal_in_what_is_shared(audited, tmp_path):
    _, given, result = audited
    result.to_csv(tmp_path / "tables")
    shared = [result.to_html(), result.to_json()]
    shared += [path.read_text() for path in (tmp_path / "tables").iterdir()]
    secrets = {name for name in NAMED.index} | personal_values(given.points)
    secrets |= {repr(float(s)) for s in given.score} | {w for w in given.in_words()}
    for text in shared:
        found = [s for s in secrets if s in text]
        assert not found, found[:3]


def test_small_groups_are_suppressed():
    cohorts = np.array(["few"] * 9 + ["many"] * 191)
    result = made(cohorts=cohorts, people=40)[2]
    summary = result.summary()
    assert [(c.cohort, c.rows, c.refitted) for c in summary.cohorts] == [
        ("(2 groups together)", 200, None)  # one alone would be what is missing from all rows
    ]
    for bins in (summary.margins, summary.certificates.survive):
        assert all(b.count >= FEWEST for b in bins)
        assert sum(b.count for b in bins) == summary.recourses.valid
    sizes = result.explained.cells["rows"].tolist()
    shown = [c.harm is not None for c in summary.critical.cells]
    assert shown == [size >= FEWEST for size in sizes]


def test_counts_add_up():
    result = made(people=60)[2]
    counts = result.counts
    assert counts["people"] == 60
    assert counts["above_target"] + counts["without_recourse"] + counts["recourses"] == 60
    assert counts["valid"] + counts["not_valid"] == counts["recourses"]


def test_few_recourses_are_nobodys_medians(audited):
    """One audited person's margin is the median of one."""
    model, given, _ = audited
    one = hf.audit(model, given.take([0]), max_deletions=2)
    summary = one.summary()
    said = summary.as_json()
    assert summary.recourses.overshoot_median is None
    assert summary.recourses.valid is None
    assert summary.margins == []
    assert summary.bounds == []
    assert summary.critical is None
    assert summary.certificates is None
    assert summary.headline.ceiling is None
    margin = float(one.recourses["margin"].iloc[0])
    for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", said):
        assert abs(float(number) - margin) > 1e-3 * abs(margin)
    assert one.to_html()


def test_the_case_file_is_for_its_owner_only(audited, tmp_path):
    result = audited[2]
    result.case_file(tmp_path / "case.html")
    result.case_file(tmp_path / "case")
    page = (tmp_path / "case.html").read_text()
    assert "Personal data" in page
    assert "Never a ground to delay or refuse" in page
    assert result.critical["id"].iloc[0] in page
    table = pd.read_csv(tmp_path / "case" / "recourses.csv")
    assert table["id"].tolist() == result.recourses.index.tolist()
    assert table["change"].str.contains("lower|raise").all()
    private = [tmp_path / "case.html", *(tmp_path / "case").iterdir()]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    assert (tmp_path / "case").stat().st_mode & 0o777 == 0o700


def test_report_is_small_and_needs_nothing(audited):
    page = audited[2].to_html()
    assert len(page) < 1_500_000
    outside = re.findall(r'(?:src|href)="(?!#)[^"]*"|url\((?!#)[^)]*\)|@import', page)
    assert not [o for o in outside if "w3.org" not in o]
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for svg in re.findall(r"<svg[^>]*>", page):
        assert "aria-label" in svg
        assert 'role="img"' in svg


def test_plot_draws_on_given_axes(audited):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert audited[2].plot(ax) is ax
    assert ax.get_xlabel() == "rows erased"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": 9}, "at must be"),
        ({"draws": 0}, "draws"),
        ({"max_deletions": 0}, "max_deletions"),
        ({"erasures": 5000}, "cannot be drawn"),
        ({"cohorts": ["a"] * 200}, "1 different values"),
        ({"cohorts": ["a"] * 3}, "each of 200 rows"),
        ({"search": "random"}, "beside every search"),
        ({"search": "beast"}, "method must be"),
        ({"unit": "family"}, "unit must be"),
        ({"target": "much"}, "target must be"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(hf.HoldfastError, match=message):
        made(people=30, **options)
