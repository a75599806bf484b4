"""What is hidden stays hidden from somebody who adds up everything that is shown."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.report.suppression import FEWEST, at_least, at_most, hidden_together, merged


def ranges(size, rows, low, high):
    """The least and the most every whole unknown can be, given what is known of their sums."""
    known = LinearConstraint(np.array(rows, dtype=float).reshape(-1, size), low, high)
    found = []
    for place in range(size):
        aim = np.eye(size)[place]
        ends = [
            milp(sign * aim, constraints=known, integrality=np.ones(size), bounds=(0, np.inf))
            for sign in (1, -1)
        ]
        assert all(end.status in (0, 3) for end in ends), "what is shown contradicts itself"
        found.append(tuple(np.inf if e.status == 3 else round(e.x[place]) for e in ends))
    return found


def worked_out(summary):
    """The range of every certificate's count, from a summary alone."""
    q, size = summary["recourses"]["valid"], summary["settings"]["max_deletions"] + 1
    rows, low, high = [np.ones(size)], [q], [q]
    for b in summary["certificates"]["survive"]:
        rows.append([b["low"] <= k <= b["high"] for k in range(size)])
        low.append(b["count"])
        high.append(b["count"])

    def fewer_than(k, least, most):
        rows.append([j < k for j in range(size)])
        low.append(least)
        high.append(most)

    for point in summary["curve"]:
        k, ceiling = point["deletions"], point["ceiling"]
        if k and ceiling is not None:
            most = round(ceiling * q)
            least = 0 if most == 0 else FEWEST * ((most - 1) // FEWEST) + 1
            broken = point["frozen"] if point["frozen"] is not None else point["refitted"]
            fewer_than(k, max(least, round((broken or 0) * q)), most)
    return ranges(size, rows, low, high)


@pytest.fixture(scope="module")
def audits():
    """Audits with few recourses in some certificates."""
    made = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.normal(size=(120, 4)), columns=list("abcd"))
        y = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=120)
        steps = [StandardScaler()] if seed else []
        model = hf.erasable(make_pipeline(*steps, LinearRegression()).fit(X, y), X, y)
        people = pd.DataFrame(rng.normal(size=(90, 4)) - 0.3, columns=list("abcd"))
        promised = hf.find_recourse(model, people, overshoot=rng.choice([0.05, 0.2, 0.4], 1)[0])
        spread = rng.exponential(0.3, len(promised))
        points = promised.points + np.outer(spread, [0.5, -1.0, 0.2, 0.0])
        audit = hf.audit(model, points, promised.target, max_deletions=6)
        audit.hardening = hf.harden(model, people, promised.target, 2, mitigations=["honour"])
        made.append(audit)
    return made


def test_certificates_do_not_follow_from_ceilings(audits):
    small = 0
    for audit in audits:
        summary = json.loads(audit.to_json())
        true = np.bincount(audit.recourses["certified"], minlength=7)
        for count, (least, most) in zip(true, worked_out(summary), strict=True):
            assert least <= count <= most
            if 0 < count < FEWEST:
                small += 1
                assert least < most, "worked out"
    assert small  # else there was nothing to hide


def test_the_attacker_would_succeed_without_the_steps(audits):
    """The same attack on exact ceilings finds what the merged bins hide."""
    found = 0
    for audit in audits:
        summary = json.loads(audit.to_json())
        q = summary["recourses"]["valid"]
        true = np.bincount(audit.recourses["certified"], minlength=7)
        exact = [round(c * q) for c in audit.curve["ceiling"].dropna()]
        alone = np.diff(exact)
        found += int(np.sum((alone == true[: alone.size]) & (alone > 0) & (alone < FEWEST)))
    assert found


def test_a_ceiling_shown_is_never_below_the_proven_one(audits):
    for audit in audits:
        shown = [p.ceiling for p in audit.summary().curve]
        for proven, said in zip(audit.curve["ceiling"], shown, strict=True):
            assert (said is None) == np.isnan(proven)
            assert said is None or said >= proven - 1e-12
        said = audit.summary().headline
        if said.ceiling is not None:
            percent = int(np.ceil(100 * said.ceiling - 1e-9))
            assert f"can break more than {percent} %" in said.sentence


def test_the_baseline_of_hardening_says_no_more(audits):
    for audit in audits:
        part = audit.hardening.part()
        honest = audit.hardening.table
        for line, true in zip(part.lines, honest.to_dict(orient="records"), strict=True):
            assert line.certified <= true["certified"] + 1e-12
            left = round((1 - line.certified) * len(audit.hardening.made[0].points))
            assert left % FEWEST == 0 or left == len(audit.hardening.made[0].points)


def test_nothing_shared_is_precise_enough_to_try_guesses_against(audits):
    """Numbers worked out from the training data have four digits."""
    said = json.loads(audits[0].to_json())
    unit = said["recourses"]["score_unit"]
    assert unit == float(f"{audits[0].model.score_unit:.4g}")
    for part in ("bounds", "agreement"):
        for line in said[part] or []:
            for value in line.values():
                if isinstance(value, float):
                    assert value == float(f"{value:.4g}")


counts = st.lists(st.integers(0, 60), min_size=2, max_size=8)


@settings(max_examples=300, deadline=None)
@given(counts)
def test_parts_of_a_total_are_hidden_together(parts):
    named = dict(enumerate(parts))
    hidden = hidden_together(named)
    assert {n for n, c in named.items() if 0 < c < FEWEST} <= hidden
    if hidden and hidden != set(named):
        # all that is known of them is their sum, and that each is 1 at least
        total, many = sum(named[n] for n in hidden), len(hidden)
        assert many > 1
        assert total - (many - 1) >= FEWEST  # any of them may be large


@settings(max_examples=300, deadline=None)
@given(counts)
def test_merged_bins_hold_enough_and_everybody(bins):
    found = merged(bins)
    if sum(bins) < FEWEST:
        assert found == []
        return
    assert all(count >= FEWEST for _, _, count in found)
    assert sum(count for _, _, count in found) == sum(bins)
    places = [k for first, last, _ in found for k in range(first, last + 1)]
    assert places == list(range(len(bins)))
    for first, last, count in found:
        assert count == sum(bins[first : last + 1])


@settings(max_examples=300, deadline=None)
@given(st.integers(10, 500).flatmap(lambda q: st.tuples(st.integers(0, q), st.just(q))))
def test_steps_are_bounds_and_hide_small_counts(pair):
    count, q = pair
    above, below = at_most(count / q, q), at_least(count / q, q)
    assert below - 1e-12 <= count / q <= above + 1e-12
    assert (above == 0) == (count == 0)
    assert (below == 1) == (count == q)
    alike = [c for c in range(q + 1) if at_most(c / q, q) == above]
    assert len(alike) > 1 or count in (0, q)
