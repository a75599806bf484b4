"""CatBoost's files: a binary form that only its own library reads.

It is read in a process of its own, within limits of time and memory, which writes it down as JSON.
That is looked through here, and what is loaded is the JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.cases.native import damaged, refuse_large, refuse_unknown
from holdfast.errors import HoldfastError, UnsupportedModelError

#: seconds, and bytes of memory, for reading a file in a process of its own
SECONDS, MEMORY = 60, 4 * 10**9

MOST_DEPTH = 16

#: parameters that are choices of a fit, and reach nothing else
TAKEN = (
    *("iterations", "learning_rate", "depth", "l2_leaf_reg", "random_strength", "rsm"),
    *("bagging_temperature", "bootstrap_type", "subsample", "border_count", "feature_border_type"),
    *("boosting_type", "grow_policy", "min_data_in_leaf", "max_leaves", "nan_mode", "random_seed"),
    *("leaf_estimation_method", "leaf_estimation_iterations", "leaf_estimation_backtracking"),
    *("boost_from_average", "score_function", "loss_function", "sampling_frequency"),
    *("model_shrink_rate", "model_shrink_mode", "model_size_reg", "class_weights"),
    *("auto_class_weights", "sampling_unit", "mvs_reg", "random_score_type", "langevin"),
    *("diffusion_temperature", "penalties_coefficient", "fold_permutation_block"),
    *("fold_len_multiplier", "approx_on_full_history", "has_time"),
)

#: parameters that say how a fit is shown and where it runs
_ASIDE = (
    "verbose",
    "silent",
    "logging_level",
    "metric_period",
    "thread_count",
    "allow_writing_files",
)

_SYNONYMS = {"random_state": "random_seed", "n_estimators": "iterations", "max_depth": "depth"}

#: all that an estimator of a file may be told
KNOWN = (*TAKEN, *_ASIDE, *_SYNONYMS)

_CHILD = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
    resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
except (ImportError, ValueError, OSError):  # there are no such limits here
    pass
from catboost import CatBoost
CatBoost().load_model(sys.argv[1]).save_model(sys.argv[2], format="json")
"""


def estimator(content: bytes, parameters: dict[str, Any], what: str) -> Any:
    """CatBoost's own estimator around the model of a file."""
    import catboost

    with tempfile.TemporaryDirectory() as folder:
        text = as_json(content, folder, what)
        loss = checked(text, what)
        kinds = {"Logloss": catboost.CatBoostClassifier}
        made = kinds.get(loss, catboost.CatBoostRegressor)()
        clean = Path(folder, "clean.json")
        clean.write_text(json.dumps(text))
        made.load_model(str(clean), format="json")
    told = made.get_params()
    for name in told:
        if name not in KNOWN:
            raise UnsupportedModelError(
                f"{what} was fitted with {name!r}, which a refit here does not take: what is taken "
                f"is {', '.join(TAKEN)}"
            )
    refuse_unknown(parameters, (*TAKEN, *_SYNONYMS), "CatBoost")
    kept = {name: value for name, value in told.items() if name not in _ASIDE}
    made._init_params = {**kept, "allow_writing_files": False, "verbose": False, **parameters}
    return made


def as_json(content: bytes, folder: str, what: str) -> Any:
    """What CatBoost makes of a file, in a process of its own."""
    given, made = Path(folder, "given.cbm"), Path(folder, "made.json")
    given.write_bytes(content)
    code = _CHILD.format(memory=MEMORY, seconds=SECONDS)
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(  # noqa: S603 (our own interpreter, with our own words)
            [sys.executable, "-c", code, str(given), str(made)],
            capture_output=True,
            timeout=2 * SECONDS,
            env=quiet,
            cwd=folder,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise damaged(what, "catboost", f"reading it took more than {2 * SECONDS} s") from None
    if done.returncode or not made.exists():
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise damaged(what, "catboost", said or f"reading it ended with {done.returncode}")
    refuse_large(f"{what}, written out,", made.stat().st_size)
    return json.loads(made.read_text())


def checked(document: Any, what: str) -> str:
    """The loss of a model whose trees look at columns there are."""
    kinds = [kind for kind, some in document["features_info"].items() if some]
    if kinds != ["float_features"]:
        others = ", ".join(kind for kind in kinds if kind != "float_features")
        raise UnsupportedModelError(
            f"{what} has {others or 'no features'}, and only numbers are supported: encode them "
            "before the model"
        )
    trees = document.get("oblivious_trees")
    if not trees:
        raise UnsupportedModelError(
            f"{what} has no symmetric trees: grow_policy='SymmetricTree' is supported"
        )
    columns = document["features_info"]["float_features"]
    borders = {int(column["feature_index"]): column["borders"] or [] for column in columns}
    for number, tree in enumerate(trees):
        splits, values = tree["splits"] or [], tree["leaf_values"]
        fine = (
            len(splits) <= MOST_DEPTH
            and len(values) == 2 ** len(splits)
            and np.isfinite(np.asarray(values, dtype=float)).all()
            and all(split["split_type"] == "FloatFeature" for split in splits)
            and all(split["border"] in borders[split["float_feature_index"]] for split in splits)
        )
        if not fine:
            raise damaged(what, "catboost", f"tree {number} is no symmetric tree of its columns")
    params = document["model_info"]["params"]
    loss = str(params["loss_function"]["type"])
    if loss not in ("Logloss", "RMSE", "MAE", "Quantile", "Poisson", "Huber"):
        raise HoldfastError(f"{what} has the loss {loss[:40]!r}: Logloss and regression are known")
    return loss
