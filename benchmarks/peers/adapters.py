"""What each peer is asked, in its own words; runs in the peer's own environment.

``python adapters.py NAME FOLDER`` reads the question from ``FOLDER/question.json`` and writes what
came back to ``FOLDER/NAME.json``. Nothing here imports Holdfast, except what asks Holdfast itself.
An adapter gives points and seconds; whether points are valid, keep what is frozen and outlive
erasures is judged by ``run.py``, with one and the same model for all.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import resource
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression

ADAPTERS = {}


def adapter(package):
    """Says which installed package a function speaks for."""

    def keep(function):
        ADAPTERS[function.__name__] = (package, function)
        return function

    return keep


def read(folder):
    """The question: a table, a fitted model, people, and what they may not change."""
    said = json.loads((folder / "question.json").read_text())
    ask = SimpleNamespace(**said)
    ask.X = pd.DataFrame(said["X"], columns=said["features"])
    ask.y = np.array(said["y"])
    ask.people = pd.DataFrame(said["people"], columns=said["features"])
    ask.promises = pd.DataFrame(said["promises"], columns=said["features"])
    ask.free = [name for name in said["features"] if name not in said["frozen"]]
    ask.ranges = {name: [said["low"], said["high"]] for name in ask.free}
    ask.model = LogisticRegression()  # the same coefficients in whatever scikit-learn is here
    ask.model.coef_, ask.model.intercept_ = np.array([said["coef"]]), np.array([said["intercept"]])
    ask.model.classes_, ask.model.n_features_in_ = np.array([0, 1]), len(said["features"])
    ask.model.feature_names_in_ = np.array(said["features"], dtype=object)
    return ask


def second(ask):
    """The other table: numbers to predict, people above a ceiling."""
    told = ask.regression
    X = pd.DataFrame(told["X"], columns=told["features"])
    people = pd.DataFrame(told["people"], columns=told["features"])
    return told, X, np.array(told["y"]), people


def processor():
    """Seconds of processor time so far, of this process and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(call, *arguments):
    """Processor seconds of a call (a busy machine changes them little), and what it gave.

    What it prints is swallowed. Short calls are repeated: clocks are coarse.
    """
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        start, calls = processor(), 0
        while not calls or processor() - start < 0.1:
            made = call(*arguments)
            calls += 1
        return (processor() - start) / calls, made


def recourse(method, find, people, columns=None):
    """One answer: points, NaN where there is none. ``find`` takes a frame of people."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        find(people.iloc[:1])  # first calls load things
    seconds, points = timed(find, people)
    if isinstance(points, pd.DataFrame):
        points = points.to_numpy(dtype=float)
    points = np.array(points, dtype=float)
    return {"method": method, "seconds": seconds, "points": points.tolist()}


def one_by_one(find, people):
    """Points of a method that takes one person at a time; what fails is a missing point."""
    width, points, errors = people.shape[1], [], []
    for k in range(len(people)):
        try:
            point = find(people.iloc[[k]])
        except Exception as error:  # the peers raise all sorts; their last words are kept
            errors.append(f"{type(error).__name__}: {error}".splitlines()[0][:120])
            point = None
        points.append(np.full(width, np.nan) if point is None else np.ravel(point))
    return np.array(points, dtype=float), sorted(set(errors))


@adapter("holdfast")
def holdfast(ask):
    import holdfast as hf

    fitted = LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000).fit(ask.X, ask.y)
    model = hf.erasable(fitted, ask.X, ask.y)
    rules = hf.Actionability(
        {name: {"frozen": True} for name in ask.frozen}
        | {name: {"low": ask.low, "high": ask.high} for name in ask.free}
    )

    def least(people):
        return hf.find_recourse(model, people, target=0.0, actionability=rules).points

    def firm(people):
        return hf.find_recourse(
            model, people, target=0.0, actionability=rules, overshoot=1.0
        ).points

    answers = [recourse("scfe, the least change", least, ask.people)]
    answers.append(recourse("scfe, one deviation further", firm, ask.people))

    def worst():
        promises = model.deletions(ask.promises)
        broken = (model.scores(ask.promises)[:, None] - promises.single_effects()) < 0
        return int(broken.sum(axis=0).argmax())

    worst()
    seconds, row = timed(worst)
    answers.append(
        {"method": "all single erasures, by the algebra", "seconds": seconds, "row": row}
    )

    told, X, y, people = second(ask)
    straight = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")
    frozen = hf.Actionability({name: {"frozen": True} for name in told["frozen"]})

    def lower(people):
        return hf.find_recourse(
            straight, people, target=-told["ceiling"], actionability=frozen
        ).points

    answers.append(recourse("scfe, the least change", lower, people) | {"regression": True})
    return answers


@adapter("holdfast")
def zaminfluence(ask):
    """Its question (the fewest rows whose loss turns a conclusion), answered in numpy.

    The package is for R. The idea: add up the first-order influences of single rows, largest
    first, until the conclusion would turn; then fit again without them. Influences are Holdfast's
    ``C`` and ``r`` without ``P``, which is what the idea leaves out.
    """
    import holdfast as hf

    told, X, y, people = second(ask)
    model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")

    def influences(points):
        deletions = model.deletions(points)
        return deletions.dense() * deletions.residuals

    def fewest(influence, margin):
        order = np.argsort(-influence)
        total = np.cumsum(np.maximum(influence[order], 0.0))
        k = int(np.searchsorted(total, margin)) + 1
        return (k, order[:k].tolist()) if k <= len(total) else (None, [])

    foretold = {}
    for feature in told["features"]:
        ends = X.iloc[[0, 0]].astype(float).reset_index(drop=True)
        ends.loc[1, feature] += 1.0

        def slope(of, ends=ends):
            return float(np.diff(of.scores(ends))[0])

        sign = np.sign(slope(model))
        k, rows = fewest(sign * np.diff(influences(ends), axis=0)[0], abs(slope(model)))
        if k is not None:
            foretold[feature] = k, bool(sign * slope(model.without(rows)) < 0)
    least = min(foretold, key=lambda feature: foretold[feature][0])
    right = sum(turned for _, turned in foretold.values())
    signs = (
        f"the fewest are {foretold[least][0]} for {least}, of {len(foretold)} "
        f"coefficients that can be turned; confirmed by refitting for {right} of them"
    )

    frozen = hf.Actionability({name: {"frozen": True} for name in told["frozen"]})
    given = hf.find_recourse(
        model, people, target=-told["ceiling"], actionability=frozen, overshoot=0.3
    )
    margins = model.scores(given.points) + told["ceiling"]

    def break_all():
        drops = influences(given.points)
        return [fewest(drop, margin) for drop, margin in zip(drops, margins, strict=True)]

    break_all()
    seconds, plans = timed(break_all)
    proof = hf.certify(model, given, target=-told["ceiling"], max_deletions=14)
    attacked = proof["attacked"].to_numpy()
    more = sum(k > known for (k, _), known in zip(plans, attacked, strict=True))
    broken = sum(
        bool(model.without(rows).scores(given.points.iloc[[i]])[0] < -told["ceiling"])
        for i, (_, rows) in enumerate(plans)
    )
    promises = (
        f"its sets break {broken} of {len(plans)} by refitting; for {more} fewer rows are known to "
        "do it (hf.certify), for none is it a proof"
    )
    return [
        {
            "method": "the fewest rows that turn a coefficient's sign",
            "seconds": seconds,
            "note": signs,
        },
        {"method": "the fewest rows that break a promise", "seconds": seconds, "note": promises},
    ]


@adapter("dice-ml")
def dice(ask):
    import dice_ml

    table = dice_ml.Data(
        dataframe=ask.X.astype(float).assign(good=ask.y),
        continuous_features=list(ask.X.columns),
        outcome_name="good",
    )
    model = dice_ml.Model(model=ask.model, backend="sklearn")
    answers = []

    def first(frame, features):
        if frame is None or not len(frame):
            return np.full(len(features), np.nan)
        return frame[features].iloc[0].to_numpy(dtype=float)

    for method in ("random", "genetic"):
        explainer = dice_ml.Dice(table, model, method=method)
        seed = {"random_seed": 0} if method == "random" else {}

        def find(people, explainer=explainer, seed=seed):
            found = explainer.generate_counterfactuals(
                people,
                total_CFs=1,
                desired_class=1,
                features_to_vary=ask.free,
                permitted_range=ask.ranges,
                **seed,
            )
            return [first(one.final_cfs_df, ask.features) for one in found.cf_examples_list]

        answers.append(recourse(method, find, ask.people.astype(float)))

    told, X, y, people = second(ask)
    table = dice_ml.Data(
        dataframe=X.assign(progress=y),
        continuous_features=[name for name in X if name != "sex"],
        outcome_name="progress",
    )
    straight = dice_ml.Model(
        model=LinearRegression().fit(X, y), backend="sklearn", model_type="regressor"
    )
    explainer = dice_ml.Dice(table, straight, method="random")

    def lower(people):
        found = explainer.generate_counterfactuals(
            people,
            total_CFs=1,
            desired_range=[0.0, told["ceiling"]],
            features_to_vary=[name for name in X if name not in told["frozen"]],
            random_seed=0,
        )
        return [first(one.final_cfs_df, told["features"]) for one in found.cf_examples_list]

    answers.append(recourse("random", lower, people) | {"regression": True})
    return answers


@adapter("reachml")
def reachml(ask):
    from reachml import ActionSet
    from reachml.reachable_set import EnumeratedReachableSet

    actions = ActionSet(ask.X.astype(int))
    heavy = sorted(ask.free, key=lambda name: -abs(ask.coef[ask.features.index(name)]))
    moved = heavy[: ask.reach["features"]]
    for name in ask.features:
        actions[name].actionable = name in moved
        actions[name].lb, actions[name].ub = ask.low, ask.high
        if name in moved:
            actions[name].step_lb, actions[name].step_ub = -ask.reach["steps"], ask.reach["steps"]
    sizes, complete = [], []

    def find(people):
        sizes.clear()
        complete.clear()
        points = []
        for _, person in people.iterrows():
            reachable = EnumeratedReachableSet(actions, x=person.to_numpy(dtype=float))
            reachable.generate()
            sizes.append(len(reachable.X))
            complete.append(bool(reachable.complete))
            good = reachable.X[
                ask.model.predict(pd.DataFrame(reachable.X, columns=ask.features)) == 1
            ]
            cost = np.abs(good - person.to_numpy(dtype=float)).sum(axis=1)
            points.append(good[cost.argmin()] if len(good) else np.full(len(ask.features), np.nan))
        return points

    made = recourse("all reachable points", find, ask.people)
    made["note"] = (
        f"{len(moved)} features by up to {ask.reach['steps']} steps: {min(sizes)} to {max(sizes)} "
        f"points a person, complete for {sum(complete)} of {len(complete)}; who got none has none "
        "among these, which is proven"
    )
    return [made]


@adapter("oceanpy")
def ocean(ask):
    from ocean import ConstraintProgrammingExplainer
    from ocean.feature import parse_features
    from sklearn.ensemble import RandomForestClassifier

    # scaled as the package's own loaders do; thresholds of its trees are halfway between levels
    table, mapper = parse_features(ask.X.astype(float))
    low, high = ask.X.min().to_numpy(float), ask.X.max().to_numpy(float)
    forest = RandomForestClassifier(n_estimators=20, max_depth=4, random_state=0).fit(
        table.to_numpy(), ask.y
    )
    explainer = ConstraintProgrammingExplainer(forest, mapper=mapper)
    verdicts, optimal = [], []

    def find(people):
        verdicts.clear()
        optimal.clear()

        def one(person):
            x = (person.to_numpy(dtype=float)[0] - low) / (high - low) - 0.5
            found = explainer.explain(x, y=1, norm=1, max_time=20, num_workers=1, random_seed=0)
            optimal.append(explainer.get_solving_status() == "OPTIMAL")
            if found is None:
                return None
            point = np.ravel(found.to_numpy()).astype(float)
            verdicts.append(int(forest.predict(point[None])[0]))
            return (point + 0.5) * (high - low) + low

        return one_by_one(one, people)[0]

    refused = ask.people[
        forest.predict((ask.people.to_numpy(float) - low) / (high - low) - 0.5) == 0
    ]
    made = recourse("constraint programming, a forest of 20 trees", find, refused)
    made |= {
        "other_model": True,
        "asked": len(refused),
        "valid": int(sum(verdicts)),
        "note": f"proven closest for {sum(optimal)} of {len(optimal)}",
        "people": refused.to_numpy(float).tolist(),
    }
    return [made]


@adapter("RoCELib")
def rocelib(ask):
    from rocelib.datasets.custom_datasets.CsvDatasetLoader import CsvDatasetLoader
    from rocelib.models.imported_models.SKLearnModel import SKLearnModel
    from rocelib.tasks.ClassificationTask import ClassificationTask

    ask.X.astype(float).assign(target=ask.y).to_csv(ask.folder / "rocelib.csv", index=False)
    table = CsvDatasetLoader(str(ask.folder / "rocelib.csv"), "target", 0)
    plain = LogisticRegression()  # it asks with arrays, which have no names
    plain.coef_, plain.intercept_, plain.classes_ = (
        ask.model.coef_,
        ask.model.intercept_,
        ask.model.classes_,
    )
    task = ClassificationTask(SKLearnModel.from_model(plain), table)
    answers = []
    for name in ("KDTreeNNCE", "BinaryLinearSearch"):
        method = task.methods[name](task)
        errors = []

        def find(people, method=method, errors=errors):
            def one(person):
                found = method.generate_for_instance(person.iloc[0], neg_value=0)
                return found[ask.features].to_numpy(dtype=float)[0]

            points, failed = one_by_one(one, people)
            errors[:] = failed
            return points

        answers.append(recourse(name, find, ask.people.astype(float)))
        if errors:
            answers[-1]["note"] = errors[0]
    return answers


@adapter("ce-library")
def cel(ask):
    import types

    # its package imports GPyOpt for a method not asked here; its metadata do not name it, and what
    # GPyOpt needs does not build on Python 3.11: an empty module stands in
    sys.modules["GPyOpt"] = types.ModuleType("GPyOpt")
    import torch
    from cel.cf_methods.local_methods.cadex.cadex import CadexEngine

    network = torch.nn.Linear(len(ask.features), 1)  # features from 0 to 1, as the package has them
    with torch.no_grad():
        network.weight[:] = torch.tensor(ask.model.coef_ * ask.high)
        network.bias[:] = torch.tensor(ask.model.intercept_)
    engine = CadexEngine(network)

    def find(people):
        def one(person):
            x = (person.to_numpy(dtype=float) / ask.high).astype(np.float32)
            point, _ = engine.train(x, 1, 2, max_epochs=3000)
            return None if point is None else point[0] * ask.high

        return one_by_one(one, people)[0]

    stand_in = "imports GPyOpt, which it does not declare: run with an empty module in its place"
    return [recourse("CADEX", find, ask.people) | {"note": stand_in}]


@adapter("alibi")
def alibi(ask):
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    from alibi.explainers import Counterfactual, CounterfactualProto

    low, high = np.full((1, 10), float(ask.low)), np.full((1, 10), float(ask.high))
    shape = (1, len(ask.features))

    def chance(points):
        return ask.model.predict_proba(pd.DataFrame(points, columns=ask.features))

    wachter = Counterfactual(
        chance,
        shape=shape,
        target_proba=0.6,
        tol=0.09,
        target_class=1,
        max_iter=100,
        max_lam_steps=3,
        feature_range=(low, high),
    )
    proto = CounterfactualProto(
        chance,
        shape=shape,
        use_kdtree=True,
        theta=10.0,
        c_steps=3,
        max_iterations=100,
        feature_range=(low, high),
    ).fit(ask.X.to_numpy(dtype=float))

    def found_by(explainer):
        def find(people):
            def one(person):
                cf = explainer.explain(person.to_numpy(dtype=float)).cf
                return None if cf is None else cf["X"][0]

            return one_by_one(one, people)[0]

        return find

    return [
        recourse("Counterfactual (Wachter)", found_by(wachter), ask.people),
        recourse("CounterfactualProto, k-d tree", found_by(proto), ask.people),
    ]


@adapter("pyDVL")
def pydvl(ask):
    from pydvl.valuation import Dataset, LOOValuation, ModelUtility
    from pydvl.valuation.scorers.base import Scorer

    promises = ask.promises.to_numpy(dtype=float)

    class Kept(Scorer):
        """The share of the promises that a model keeps: its utility here."""

        name, default, range = "kept", 0.0, (0.0, 1.0)

        def __call__(self, model):
            return float((model.decision_function(promises) >= 0).mean())

    table = Dataset(ask.X.to_numpy(dtype=float), ask.y)

    def worst():
        method = LOOValuation(
            ModelUtility(LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000), Kept()),
            progress=False,
        )
        method.fit(table)
        result = method.result
        return int(result.indices[np.argmax(result.values)])

    seconds, row = timed(worst)
    return [{"method": "leave-one-out, utility = promises kept", "seconds": seconds, "row": row}]


def main(name, folder):
    folder = Path(folder)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    ask = read(folder)
    ask.folder = folder
    package, asked = ADAPTERS[name]
    answer = {
        "version": version(package),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "answers": asked(ask),
    }
    (folder / f"{name}.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
