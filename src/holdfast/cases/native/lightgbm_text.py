"""LightGBM's text files: a header, trees as lines of numbers, and the parameters of the fit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.cases.native import damaged, refuse_unknown
from holdfast.errors import UnsupportedModelError

#: leaves of one tree, as LightGBM limits them
MOST_LEAVES = 131_072

#: LightGBM's names of what a refit takes, and what its estimator calls them
TAKEN = {
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "max_depth": "max_depth",
    "min_gain_to_split": "min_split_gain",
    "min_sum_hessian_in_leaf": "min_child_weight",
    "min_data_in_leaf": "min_child_samples",
    "bagging_fraction": "subsample",
    "bagging_freq": "subsample_freq",
    "feature_fraction": "colsample_bytree",
    "lambda_l1": "reg_alpha",
    "lambda_l2": "reg_lambda",
    "bin_construct_sample_cnt": "subsample_for_bin",
    "seed": "random_state",
    **{
        name: name
        for name in (
            *("data_sample_strategy", "pos_bagging_fraction", "neg_bagging_fraction"),
            *("bagging_seed", "feature_fraction_bynode", "feature_fraction_seed", "extra_trees"),
            *("extra_seed", "max_delta_step", "top_rate", "other_rate", "path_smooth", "max_bin"),
            *("min_data_in_bin", "data_random_seed", "use_missing", "zero_as_missing"),
            *("is_unbalance", "scale_pos_weight", "sigmoid", "boost_from_average", "alpha"),
            *("drop_rate", "max_drop", "skip_drop", "drop_seed", "xgboost_dart_mode"),
            *("uniform_drop", "objective_seed", "force_col_wise", "force_row_wise"),
            *("use_quantized_grad", "num_grad_quant_bins", "quant_train_renew_leaf"),
            *("stochastic_rounding", "linear_tree", "fair_c", "tweedie_variance_power"),
            *("poisson_max_delta_step", "reg_sqrt"),
        )
    },
}

_INNER = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_INNER_ALSO = ("split_gain", "internal_value", "internal_weight", "internal_count")
_LEAF_ALSO = ("leaf_weight", "leaf_count")
_NAME = re.compile(r"[A-Za-z_]\w{0,60}")


def estimator(content: bytes, parameters: dict[str, Any], what: str) -> Any:
    """LightGBM's own estimator around the booster of a file."""
    import lightgbm

    text, rounds = checked(content, what)
    booster = lightgbm.Booster(model_str=text)
    told = booster.params  # as LightGBM reads them: numbers, yes and no
    objective = str(told.get("objective", "")).partition(" ")[0]
    taken = {ours: told[name] for name, ours in TAKEN.items() if name in told}
    taken |= {"n_estimators": rounds, "verbose": -1}
    if (kind := told.get("boosting", "gbdt")) != "gbdt":
        taken["boosting_type"] = kind
    refuse_unknown(parameters, [*taken, *TAKEN.values(), "class_weight"], "LightGBM")
    taken |= parameters
    kinds = {"binary": lightgbm.LGBMClassifier}
    if objective not in kinds and not objective.startswith("regression"):
        raise UnsupportedModelError(
            f"{what} has the objective {objective[:40]!r}: binary and regression are supported"
        )
    made = kinds.get(objective, lightgbm.LGBMRegressor)(**taken)
    if objective not in ("binary", "regression"):
        made.set_params(objective=objective)
    return with_booster(made, booster)


def with_booster(made: Any, booster: Any) -> Any:
    """An estimator as its ``fit`` would have left it; the library has no other way in."""
    made._Booster, made.fitted_, made._best_iteration = booster, True, 0
    made._n_features = made._n_features_in = booster.num_feature()
    names = booster.feature_name()
    made._fitted_with_feature_names = names != [f"Column_{j}" for j in range(len(names))]
    made._objective, made._class_weight, made._class_map = made.objective, None, None
    if hasattr(made, "predict_proba"):
        from lightgbm.compat import _LGBMLabelEncoder

        made._objective = "binary"
        made._le = _LGBMLabelEncoder().fit([0, 1])
        made._classes, made._n_classes = np.array([0, 1]), 2
    return made


def checked(content: bytes, what: str) -> tuple[str, int]:
    """The text made anew of what was looked at, and how many trees it has."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise damaged(what, "lightgbm", "it is no text") from None
    body, end, rest = text.partition("\nend of trees\n")
    head, *trees = re.split(r"\nTree=\d+\n", body)
    header = _keys(head)
    if not text.startswith("tree\n") or not end or not trees:
        raise damaged(what, "lightgbm", "it does not begin with 'tree' and end its trees")
    if header.get("num_class") != "1" or header.get("num_tree_per_iteration") != "1":
        raise UnsupportedModelError(f"{what} tells more than two classes apart: two are supported")
    features = int(header["max_feature_idx"]) + 1
    names = header["feature_names"].split(" ")
    if not 0 < features == len(names):
        raise damaged(what, "lightgbm", f"{len(names)} names of {features} features")
    told = _parameters(rest)
    told.setdefault("objective", header.get("objective", ""))
    told["verbosity"] = "-1"
    if re.search(r"^pandas_categorical:(?!null|\[\])", rest, re.MULTILINE):
        raise UnsupportedModelError(
            f"{what} has columns of pandas categories, which a table from a file has not: encode "
            "them before the model, and save both as .skops"
        )
    kept = ("version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx")
    # without tree_sizes, which are places in the text that LightGBM would jump to
    lines = ["tree", *(f"{name}={header[name]}" for name in kept if name in header)]
    lines += [f"objective={header.get('objective', '')}"]
    lines += [
        f"feature_names={header['feature_names']}",
        f"feature_infos={header['feature_infos']}",
    ]
    for number, tree in enumerate(trees):
        lines += ["", f"Tree={number}", *_tree(_keys(tree), features, f"{what}, tree {number}")]
    lines += ["", "", "end of trees", "", "parameters:"]
    lines += [f"[{name}: {value}]" for name, value in told.items() if name in (*TAKEN, *_SAID)]
    lines += ["", "end of parameters", "", "pandas_categorical:null", ""]
    return "\n".join(lines), len(trees)


#: parameters that are no choice of a refit, and are read
_SAID = ("boosting", "objective", "metric", "num_iterations", "verbosity")


def _keys(block: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in block.split("\n") if "=" in line)
    return {name: value for name, _, value in pairs}


def _parameters(rest: str) -> dict[str, str]:
    """What stands between ``parameters:`` and its end, as text."""
    inside = rest.partition("\nparameters:\n")[2].partition("\nend of parameters")[0]
    found = {}
    for line in inside.split("\n"):
        name, colon, value = line.strip().strip("[]").partition(":")
        if colon and _NAME.fullmatch(name) and value.strip():
            found[name] = value.strip()[:1000]
    return found


def _tree(keys: dict[str, str], features: int, what: str) -> list[str]:
    """The lines of one tree, every number of them looked at."""
    leaves, categories = int(keys["num_leaves"]), int(keys.get("num_cat", "0"))
    if not 1 <= leaves <= MOST_LEAVES:
        raise damaged(what, "lightgbm", f"it does not have 1 to {MOST_LEAVES:,} leaves")
    if keys.get("is_linear", "0") not in ("0", ""):
        raise UnsupportedModelError(f"{what} has linear leaves: constant ones are supported")
    lines = [f"num_leaves={leaves}", f"num_cat={categories}"]
    inner = leaves - 1
    found = {}
    for name in _INNER if inner else ():
        found[name] = _numbers(keys, name, inner, what)
        lines.append(f"{name}={keys[name]}")
    for name in ("leaf_value", *_LEAF_ALSO, *_INNER_ALSO):
        length = leaves if name.startswith("leaf") else inner
        if (name == "leaf_value" or keys.get(name)) and length:
            _numbers(keys, name, length, what)
            lines.append(f"{name}={keys[name]}")
    if inner:
        _positions(found, leaves, features, what)
        lines += _categories(keys, found, categories, what)
    shrinkage = float(keys.get("shrinkage") or 1)
    return [*lines, "is_linear=0", f"shrinkage={shrinkage!r}", ""]


def _numbers(keys: dict[str, str], name: str, length: int, what: str) -> npt.NDArray[np.float64]:
    words = keys.get(name, "").split(" ")
    if len(words) != length:
        raise damaged(what, "lightgbm", f"{name} has {len(words)} numbers, not {length}")
    found = np.array(words, dtype=np.float64)
    if name not in ("threshold", "split_gain") and not np.isfinite(found).all():
        raise damaged(what, "lightgbm", f"{name} has numbers that are not finite")
    return found


def _positions(
    found: dict[str, npt.NDArray[np.float64]], leaves: int, features: int, what: str
) -> None:
    """Whether every split looks at a column there is, and leads onwards."""
    for name in ("split_feature", "left_child", "right_child", "decision_type"):
        if np.any(found[name] != np.floor(found[name])):
            raise damaged(what, "lightgbm", f"{name} has fractions")
    at = found["split_feature"]
    if at.min() < 0 or at.max() >= features or not found["decision_type"].min() >= 0:
        raise damaged(what, "lightgbm", "a split looks at a column that is not there")
    if found["decision_type"].max() > 15:
        raise damaged(what, "lightgbm", "a split of an unknown kind")
    for name in ("left_child", "right_child"):
        child = found[name]
        onwards = (child > np.arange(leaves - 1)) & (child < leaves - 1)
        if not np.all(onwards | ((child < 0) & (child >= -leaves))):
            raise damaged(what, "lightgbm", "a split leads outside its tree, or back")


def _categories(
    keys: dict[str, str], found: dict[str, npt.NDArray[np.float64]], categories: int, what: str
) -> list[str]:
    """The sets of categories that splits name."""
    by_set = found["decision_type"].astype(int) & 1 == 1
    if not categories and not by_set.any():
        return []
    if not 0 < categories <= len(by_set):
        raise damaged(what, "lightgbm", "sets of categories that are not there")
    ends = _numbers(keys, "cat_boundaries", categories + 1, what)
    words = _numbers(keys, "cat_threshold", int(min(ends[-1], 10**7)), what)
    named = found["threshold"][by_set]
    fine = (
        ends[0] == 0
        and np.all(np.diff(ends) >= 0)
        and np.all(ends == np.floor(ends))
        and words.min(initial=0) >= 0
        and np.all((named >= 0) & (named < categories))
    )
    if not fine:
        raise damaged(what, "lightgbm", "sets of categories that lie outside their lines")
    return [f"{name}={keys[name]}" for name in ("cat_boundaries", "cat_threshold")]
