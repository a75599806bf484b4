"""Holdfast beside its peers: one table, one model, the same people, the same questions.

``python benchmarks/peers/run.py`` makes an environment for each peer in ``.venv-peers`` (their pins
contradict each other), asks each in a process of its own (``adapters.py``), judges what comes back
with one and the same model, and writes ``results.json`` and ``results.md`` beside this file.
``run.py dice reachml`` asks these only and keeps what is known of the others; ``--fresh`` makes
their environments anew. Some gigabytes of packages, the first time; ``uv`` installs them where it
is on the path (much faster), else pip.

Nothing is installed that brings CUDA: torch is asked for first and by name (``TORCH`` says which
release; where the index has CUDA builds only, point the installer at a CPU build by its usual
variables), and what would bring CUDA is left out by ``--no-deps``. ``PEERS_PYTHON312`` names a
Python 3.12 for the peer that needs one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression

import holdfast as hf

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / ".venv-peers"
TORCH = os.environ.get("TORCH", "torch==2.13.0")
#: the table's whole numbers, the people asked for, and what nobody may change
HIGH, PEOPLE, FROZEN = 20, 10, ("texture", "symmetry")
#: a promise holds where it scores zero to within rounding
ROUNDING = 1e-9
#: seconds after which a peer is stopped
PATIENCE = 1800


@dataclass(frozen=True)
class Peer:
    """One package: how it is installed, and what of it is out of reach here."""

    title: str
    steps: tuple[str, ...] = ()
    python: str = ""
    #: asked of pip after a failure, to name the first pin that no longer exists
    probes: tuple[str, ...] = ()
    ours: bool = False


PEERS = {
    "holdfast": Peer("Holdfast", ours=True),
    "zaminfluence": Peer("zaminfluence's idea, in numpy", ours=True),
    "dice": Peer(
        "DiCE (dice-ml)",
        (
            "--no-deps dice-ml==0.12",  # its xgboost brings a CUDA library
            "statsmodels jsonschema tqdm requests raiutils scikit-learn pandas",
        ),
    ),
    "reachml": Peer("reachml", ("reachml==0.2.0a1 scikit-learn",)),
    "ocean": Peer(
        "OCEAN (oceanpy)",
        (
            "--no-deps oceanpy==2.0.7",  # its xgboost brings a CUDA library
            "anytree gurobipy numpy ortools==9.14.6206 pandas pydantic python-sat[aiger,pblib] "
            "scikit-learn xgboost-cpu",
        ),
        python="3.12",
    ),
    "rocelib": Peer(
        "RoCELib (for RobustX)",
        (
            TORCH,
            "--no-deps rocelib==0.2.3",  # pins torch 2.4.1, whose wheels bring CUDA
            "scikit-learn pandas scipy tqdm tabulate matplotlib seaborn clingo "
            "gurobipy==11.0.1 "
            f"tensorflow==2.18.1 {TORCH}",
        ),
    ),
    "cel": Peer(
        "CEL (ce-library)",
        (
            TORCH,
            "alibi==0.9.6 tensorflow==2.18.1 onnx<1.16 ml-dtypes<0.5 transformers<5 networkx<3 "
            "torchdiffeq cvxpy hydra-core mlflow-skinny umap-learn cel-nflows>=0.14.1 UMNN plotly "
            "mlxtend pulp lingam pytorch-tabnet pyfpgrowth pyomo omlt statsmodels jsonschema "
            f"raiutils {TORCH}",
            "--no-deps ce-library==0.1.1 dice-ml==0.12",
        ),
    ),
    "alibi": Peer(
        "alibi",
        ("alibi[tensorflow]==0.9.6 click",),  # one of its dependencies imports click, none names it
    ),
    "pydvl": Peer("pyDVL", ("pyDVL==0.10.0",)),
    "carla": Peer(
        "CARLA (carla-recourse)",
        ("carla-recourse==0.0.5",),
        probes=("tensorflow==1.14.0", "torch==1.7.0", "scikit-learn==0.23.2"),
    ),
}


def question():
    """The common table: ten measurements of breast tumours in whole numbers from 0 to 20."""
    raw = load_breast_cancer(as_frame=True)
    X = raw.data.iloc[:, :10]
    X = ((X - X.min()) / (X.max() - X.min()) * HIGH).round()
    X.columns = [name.removeprefix("mean ").replace(" ", "_") for name in X.columns]
    order = np.random.default_rng(0).permutation(len(X))
    train, rest = order[:469], order[469:]
    X_train, y = X.iloc[train].reset_index(drop=True), raw.target.iloc[train].to_numpy()
    fitted = LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000).fit(X_train, y)
    model = hf.erasable(fitted, X_train, y)
    scores = model.scores(X.iloc[rest])
    refused = rest[scores < 0][np.argsort(scores[scores < 0])]
    people = X.iloc[refused[:: max(len(refused) // PEOPLE, 1)][:PEOPLE]].reset_index(drop=True)
    rules = hf.Actionability(
        {name: {"frozen": True} for name in FROZEN}
        | {name: {"low": 0, "high": HIGH} for name in X if name not in FROZEN}
    )
    promises = hf.find_recourse(model, people, target=0.0, actionability=rules).points
    return model, {
        "X": X_train.to_numpy().tolist(),
        "y": y.tolist(),
        "features": list(X.columns),
        "frozen": list(FROZEN),
        "low": 0,
        "high": HIGH,
        "people": people.to_numpy().tolist(),
        "promises": promises.to_numpy().tolist(),
        "coef": fitted.coef_[0].tolist(),
        "intercept": float(fitted.intercept_[0]),
        "reach": {"features": 4, "steps": 4},
        "regression": regression(),
    }


def regression():
    """A second table, with numbers to predict: the progression of diabetes, lower is better."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    refused = X[LinearRegression().fit(X, y).predict(X) > 140].iloc[:PEOPLE]
    return {
        "X": X.to_numpy().tolist(),
        "y": y.tolist(),
        "features": list(X.columns),
        "frozen": ["age", "sex"],
        "ceiling": 140.0,
        "people": refused.to_numpy().tolist(),
    }


def python_of(peer):
    """The interpreter an environment is made with; None where this machine has none."""
    if not peer.python:
        return sys.executable
    if sys.version.startswith(peer.python + "."):
        return sys.executable
    named = os.environ.get("PEERS_PYTHON" + peer.python.replace(".", ""))
    return named or shutil.which(f"python{peer.python}")


def reason(log):
    """The line of an installation's log that says why, short."""
    known = re.compile(
        r"No matching distribution|ModuleNotFoundError|ResolutionImpossible|[Ee]rror:"
    )
    lines = [line.strip() for line in log.splitlines() if known.search(line)]
    lines = [line for line in lines if "subprocess-exited" not in line] or log.splitlines()[-1:]
    return re.sub(r"^ERROR: ", "", lines[-1])[:160] if lines else "no message"


def installed(name, peer, fresh):
    """The environment's interpreter, or the reason why there is none."""
    if peer.ours:
        return sys.executable, ""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    if (folder / "ready").exists():
        return str(python), ""
    maker = python_of(peer)
    if maker is None:
        return None, f"needs Python {peer.python}, which was not found (PEERS_PYTHON… names one)"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([maker, "-m", "venv", str(folder)], check=True)
    uv = shutil.which("uv")

    def install(*what):
        how = [uv, "pip", "install", "-p", python] if uv else [python, "-m", "pip", "install"]
        return subprocess.run([*map(str, how), "--quiet", *what], capture_output=True, text=True)

    for step in peer.steps:
        print(f"  pip install {step}", flush=True)
        done = install(*step.split())
        if done.returncode:
            why = [f"`pip install {step}`: {reason(done.stderr)}"]
            for probe in peer.probes:
                tried = install("--dry-run", "--no-deps", probe)
                if tried.returncode:
                    why.append(f"`{probe}`: {reason(tried.stderr)}")
            return None, "; ".join(why)
    (folder / "ready").touch()
    return str(python), ""


def asked(name, peer, folder, fresh):
    """What a peer answers, or why it does not."""
    python, why = installed(name, peer, fresh)
    if python is None:
        return {"installed": False, "why": why}
    one_core = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            [python, str(HERE / "adapters.py"), name, str(folder)],
            env=os.environ | one_core | {"CUDA_VISIBLE_DEVICES": "", "TQDM_DISABLE": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return {"installed": True, "why": f"no answer within {PATIENCE} s"}
    if done.returncode:
        return {"installed": True, "why": reason(done.stderr)}
    return {"installed": True} | json.loads((folder / f"{name}.json").read_text())


def judged(answer, model, said):
    """What became of points: valid, rules kept, and how many the worst erasures break."""
    people = np.array(answer.pop("people", said["people"]), dtype=float)
    points = np.array(answer.pop("points"), dtype=float)
    given = np.isfinite(points).all(axis=1)
    frozen = [said["features"].index(name) for name in said["frozen"]]
    kept = np.abs(points[given][:, frozen] - people[given][:, frozen]).max(axis=1, initial=0) < 1e-6
    answer |= {"asked": len(people), "given": int(given.sum()), "frozen_kept": int(kept.sum())}
    if answer.get("other_model"):
        return answer
    reached = pd.DataFrame(points[given], columns=said["features"])
    target = -said.get("ceiling", 0.0) - ROUNDING
    valid = model.scores(reached) >= target if len(reached) else np.zeros(0, dtype=bool)
    answer["valid"] = int(valid.sum())
    moved = np.abs(points[given][valid] - people[given][valid]).sum(axis=1)
    answer["moved"] = float(np.mean(moved)) if len(moved) else None
    if valid.any():
        good = reached[valid].reset_index(drop=True)
        plan = hf.search(model, good, target=target, max_deletions=2, random_state=0)
        proof = hf.certify(model, good, target=target, max_deletions=2)
        answer["broken_by"] = plan.rerun().tolist()
        answer["survive_2"] = int((proof["certified"] >= 2).sum())
    return answer


def compared(results, names):
    """Times of those asked in this run as ratios to ours of the same run."""
    ours = {("row" in a): a["seconds"] for a in reversed(results["holdfast"].get("answers", []))}
    for name in set(names) & set(results):
        for answer in results[name].get("answers", []):
            if not answer.get("regression") and not answer.get("other_model"):
                answer["ratio"] = answer["seconds"] / ours["row" in answer]


def broken_without(model, row, said):
    promises = pd.DataFrame(said["promises"], columns=said["features"])
    return float((model.without([row]).scores(promises) < 0).mean())


def straight(told):
    """The second table's model; its scores say how far a prediction is below the ceiling."""
    X, y = pd.DataFrame(told["X"], columns=told["features"]), np.array(told["y"])
    return hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low"), told


def main():
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("peers", nargs="*", default=[], help=f"some of {', '.join(PEERS)}")
    parser.add_argument("--fresh", action="store_true", help="make environments anew")
    options = parser.parse_args()
    unknown = set(options.peers) - set(PEERS)
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    names = list(dict.fromkeys(["holdfast", *options.peers])) if options.peers else list(PEERS)
    folder = ENVIRONMENTS / "work"
    folder.mkdir(parents=True, exist_ok=True)
    model, said = question()
    (folder / "question.json").write_text(json.dumps(said))
    second = straight(said["regression"])
    kept = HERE / "results.json"
    results = json.loads(kept.read_text())["peers"] if options.peers and kept.exists() else {}
    for name in names:
        print(f"{name} …", flush=True)
        results[name] = asked(name, PEERS[name], folder, options.fresh)
        for answer in results[name].get("answers", []):
            if "row" in answer:
                answer["breaks"] = broken_without(model, answer["row"], said)
            elif "points" in answer:
                judged(answer, *(second if answer.get("regression") else (model, said)))
        if "answers" not in results[name]:
            print(f"  {results[name]['why']}")
        written(results, names)
    print((HERE / "results.md").read_text())


def written(results, names):
    """Both files, anew after every peer: a long run that is interrupted leaves what it has."""
    compared(results, names)
    results = {name: results[name] for name in PEERS if name in results}
    about = {
        "date": time.strftime("%Y-%m-%d"),
        "holdfast": hf.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    (HERE / "results.json").write_text(
        json.dumps({"about": about, "peers": results}, indent=1) + "\n"
    )
    (HERE / "results.md").write_text(page(about, results))


def cell(value, form="{}"):
    return "" if value is None else form.format(value)


def start(name, answer):
    """The first columns of a line about points."""
    return (
        f"| {PEERS[name].title} | {answer['method']} | {answer['given']} of {answer['asked']} "
        f"| {answer['valid']} | {answer['frozen_kept']} of {answer['given']}"
    )


def broken(answer):
    """The shares that one row and two rows break."""
    if answer.get("other_model"):
        return "not asked: another model"
    shares = answer.get("broken_by")
    return f"{shares[1]:.0%} / {shares[2]:.0%}" if shares else ""


def page(about, results):
    """``results.md``, from what was measured and nothing else."""
    lines = [
        "# Holdfast and its peers, side by side",
        "",
        f"Written by `python benchmarks/peers/run.py` on {about['date']}, Holdfast "
        f"{about['holdfast']}, {about['cores']} cores. Times are processor time as a ratio to "
        "Holdfast's own, loading and the first call not counted.",
        "",
        "## Recourse: a logistic regression, 469 rows, 10 features in whole numbers, "
        f"{PEOPLE} people refused",
        "",
        f"Frozen: {' and '.join(FROZEN)}. *Valid*: scored at or above the target by the model "
        "itself. *Broken by 1 / 2 rows*: of the valid ones, by the worst erasures found, refitted. "
        "*Survive 2*: proven to survive any two erasures. Both are Holdfast's answers about the "
        "peer's points.",
        "",
        "| peer | method | given | valid | frozen kept | mean move (ℓ1) | broken by 1 / 2 rows "
        "| survive 2 | time, ours = 1 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, peer in results.items():
        for answer in peer.get("answers", []):
            if "given" not in answer or answer.get("regression"):
                continue
            lines.append(
                f"{start(name, answer)} | {cell(answer.get('moved'), '{:.1f}')} | {broken(answer)} "
                f"| {cell(answer.get('survive_2'))} | {cell(answer.get('ratio'), '{:.3g}')} |"
            )
    lines += ["", "## Which single row, erased, breaks most of the same promises?", ""]
    lines += [
        "| peer | method | row | breaks (refitted) | time, ours = 1 |",
        "|---|---|---|---|---|",
    ]
    for name, peer in results.items():
        for answer in peer.get("answers", []):
            if "row" in answer:
                lines.append(
                    f"| {PEERS[name].title} | {answer['method']} | {answer['row']} "
                    f"| {answer['breaks']:.0%} | {cell(answer.get('ratio'), '{:.3g}')} |"
                )
    lines += ["", "## Recourse for a regression: 442 rows, a prediction of at most 140", ""]
    lines += [
        "| peer | method | given | valid | frozen kept | broken by 1 / 2 rows |",
        "|---|---|---|---|---|---|",
    ]
    for name, peer in results.items():
        for answer in peer.get("answers", []):
            if answer.get("regression") and "given" in answer:
                lines.append(f"{start(name, answer)} | {broken(answer)} |")
    lines += ["", "## Notes", ""]
    for name, peer in results.items():
        for answer in peer.get("answers", []):
            if answer.get("note"):
                lines.append(f"- {PEERS[name].title}, {answer['method']}: {answer['note']}.")
    lines += ["", "## Versions, and what did not install or run", ""]
    lines += ["| peer | version | Python, numpy | |", "|---|---|---|---|"]
    for name, peer in results.items():
        if "answers" in peer:
            lines.append(
                f"| {PEERS[name].title} | {peer['version']} | {peer['python']}, {peer['numpy']} "
                "| ran |"
            )
        else:
            state = "installed, did not run" if peer["installed"] else "did not install"
            lines.append(f"| {PEERS[name].title} | | | {state}: {peer['why'].replace('|', '/')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
