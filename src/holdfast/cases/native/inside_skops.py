"""Boosters inside a .skops file: the libraries restore them from bytes, which are looked through.

What is handed on to the library is written anew from what was looked at, as for files of its own.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.cases.native import damaged
from holdfast.errors import HoldfastError

#: estimators that are restored from a booster, or hold one
ESTIMATORS = (
    *("lightgbm.sklearn.LGBMClassifier", "lightgbm.sklearn.LGBMRegressor"),
    *("xgboost.sklearn.XGBClassifier", "xgboost.sklearn.XGBRegressor"),
    *("catboost.core.CatBoostClassifier", "catboost.core.CatBoostRegressor"),
)

#: types of boosting libraries that a file may name, as objects
TYPES = frozenset(
    [
        *ESTIMATORS,
        *("lightgbm.basic.Booster", "xgboost.core.Booster", "lightgbm.compat._LGBMLabelEncoder"),
    ]
)

#: parameters beside those of a refit that change nothing outside it
_HARMLESS = {
    *("objective", "metric", "verbosity", "verbose", "n_jobs", "num_threads", "deterministic"),
    *("force_row_wise", "force_col_wise", "class_weight", "boosting_type", "importance_type"),
    *("n_estimators", "eval_metric", "booster", "missing", "num_parallel_tree", "device"),
    *("validate_parameters", "enable_categorical", "feature_types", "max_cat_to_onehot"),
    *("max_cat_threshold", "multi_strategy", "early_stopping_rounds", "early_stopping_round"),
}


def made_anew(node: dict[str, Any], files: dict[str, bytes], what: str) -> None:
    """Look through a node that is restored from a booster's bytes, and write those anew."""
    name = f"{node.get('__module__')}.{node.get('__class__')}"
    if name not in _CLEANED or node.get("__loader__") != "ObjectNode":
        return
    state = node.get("content")
    if not isinstance(state, dict) or state.get("__loader__") != "DictNode":
        raise HoldfastError(f"{what} holds a {name} without a state")
    try:
        _CLEANED[name](state["content"], files, what)
    except HoldfastError:
        raise
    except Exception as failure:  # whatever is not where it should be
        library = str(node["__module__"]).partition(".")[0]
        raise damaged(f"a booster in {what}", library, f"{type(failure).__name__}") from None


def _lightgbm(state: dict[str, Any], files: dict[str, bytes], what: str) -> None:
    from holdfast.cases.native import lightgbm_text

    found = [state[name] for name in ("_handle", "handle") if name in state]
    if len(found) != 1 or found[0]["__loader__"] != "JsonNode":
        raise HoldfastError(f"{what} holds a LightGBM booster without trees")
    text = json.loads(found[0]["content"])
    found[0]["content"] = json.dumps(lightgbm_text.checked(text.encode(), what)[0])


def _xgboost(state: dict[str, Any], files: dict[str, bytes], what: str) -> None:
    import xgboost

    from holdfast.cases.native import xgboost_document

    handle = state["handle"]
    if handle["__loader__"] != "BytearrayNode":
        raise HoldfastError(f"{what} holds an XGBoost booster without trees")
    document = xgboost_document.read(files[handle["file"]], what)
    document = xgboost_document.checked(document.get("Model", document), what)
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(document).encode()))
    files[handle["file"]] = bytes(booster.__getstate__()["handle"])


def _catboost(state: dict[str, Any], files: dict[str, bytes], what: str) -> None:
    import catboost

    from holdfast.cases.native import catboost_binary

    if "__model" not in state:
        return  # not fitted
    if state["__model"]["__loader__"] != "BytesNode":
        raise HoldfastError(f"{what} holds a CatBoost model without trees")
    name = state["__model"]["file"]
    with tempfile.TemporaryDirectory() as folder:
        document = catboost_binary.as_json(files[name], folder, what)
        catboost_binary.checked(document, what)
        Path(folder, "clean.json").write_text(json.dumps(document))
        made = catboost.CatBoost().load_model(str(Path(folder, "clean.json")), format="json")
    files[name] = bytes(made._serialize_model())


_CLEANED: dict[str, Callable[[dict[str, Any], dict[str, bytes], str], None]] = {
    "lightgbm.basic.Booster": _lightgbm,
    "xgboost.core.Booster": _xgboost,
    "catboost.core.CatBoostClassifier": _catboost,
    "catboost.core.CatBoostRegressor": _catboost,
}


def reaches_out(part: Any) -> str | None:
    """What makes a restored estimator of these libraries read or write files, or run something."""
    kind = type(part)
    if f"{kind.__module__}.{kind.__name__}" not in ESTIMATORS:
        return None
    from holdfast.cases.native import catboost_binary, lightgbm_text, xgboost_document

    known = {
        *_HARMLESS,
        *lightgbm_text.TAKEN,
        *lightgbm_text.TAKEN.values(),
        *xgboost_document.TAKEN,
        *catboost_binary.KNOWN,
    }
    for name, value in part.get_params().items():
        if name not in known and value is not None:
            return f"has the parameter {name!r}, which may reach files or run something"
        if callable(value):
            return f"has a function as its {name!r}"
    return None
