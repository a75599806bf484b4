"""What a model of a table in files needs to forget people, kept beside it: a ``.hold`` file.

Sums, moments, a sample of the rows and an index of the ids: with them a request is a look-up, not a
pass over the files. PERSONAL DATA: sums can give a single person away, and the sample is people. So
the file is its owner's only, it is replaced when somebody is erased, and nothing of it is code: a
zip archive of plain arrays and one JSON document.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)

from holdfast.algebra.outside import Outside
from holdfast.errors import HoldfastError
from holdfast.files import PRIVATE, Outputs
from holdfast.models.ids import IdIndex
from holdfast.models.looking import Moments
from holdfast.models.losses import Squared
from holdfast.models.passes import Gathered
from holdfast.models.posed import Posed, as_if_fitted
from holdfast.models.readings import Reading
from holdfast.models.recipe import Labelled, Recipe
from holdfast.models.scanned import ScannedModel
from holdfast.scale.engines import engine_of
from holdfast.scale.scan import RowGroup, Scan

#: of the format; others are refused
VERSION = 1

#: estimators that can be held, by name
ESTIMATORS = {
    kind.__name__: kind
    for kind in (
        *(LinearRegression, Ridge, LogisticRegression),
        *(PoissonRegressor, GammaRegressor, TweedieRegressor),
    )
}


def hold(model: ScannedModel, path: Any) -> None:
    """Keep what is needed to forget people beside a model. PERSONAL DATA, mode 0600.

    Parameters
    ----------
    model : ScannedModel
        What :func:`holdfast.fit` returns.
    path : where to; a file that is there is replaced, and nothing of it is kept
    """
    with Outputs() as out:
        out.file(path, lambda place: write_hold(model, place), PRIVATE)


def write_hold(model: ScannedModel, place: Path) -> None:
    """Write the sums of a model; whoever calls sees to the mode and to what was there before."""
    recipe, found, scan = model.recipe, model.found, model.recipe.scan
    if scan.spill is not None:
        raise HoldfastError(
            "sums are kept beside Parquet files: a CSV file has no rows to look up. Write the "
            "table as Parquet"
        )
    files = sorted({part.file for part in scan.parts})
    problem = model.problem
    about: dict[str, Any] = {
        "version": VERSION,
        "files": {file: os.stat(file).st_size for file in files},
        "parts": [(p.file, p.source, p.group, p.first, p.rows) for p in scan.parts],
        "columns": {
            "numbers": scan.numbers,
            "texts": scan.texts,
            "label": scan.label,
            "favourable": scan.favourable,
            "id": scan.id,
            "subject": scan.subject,
        },
        "labels": {
            "good": sorted(recipe.labels.good, key=repr),
            "sign": recipe.labels.sign,
        },
        "categories": recipe.categories,
        "rare": recipe.rare,
        "near": [first for _, first in recipe.near],
        "estimator": type(problem.estimator).__name__,
        "parameters": problem.estimator.get_params(),
        "strength": problem.strength,
        "classes": problem.classes,
        "average": problem.average,
    }
    arrays: dict[str, Any] = {
        "theta": model.theta,
        "names": model.rows.names,
        "fills": recipe.fills,
        "means": recipe.means,
        "scales": recipe.scales,
        "gaps": recipe.gaps,
        "gone": recipe.gone,
        "triangle": found.triangle,
        "phi": found.phi,
        "y": found.y,
        "missing": found.gaps,
        "scored": found.scored,
        "held_out": model.held_out,
        "labels": np.array([found.labels]),
    }
    for name in Moments.__dataclass_fields__:
        arrays[f"moments.{name}"] = getattr(recipe.moments, name)
        arrays[f"label.{name}"] = getattr(model.label_moments, name)
    arrays["label.count"] = np.array([float(model.many)])
    for number, (values, _) in enumerate(recipe.near):
        arrays[f"near.{number}"] = values
    if model.index is not None:  # of those who are there still
        erased = np.setdiff1d(recipe.gone, model.held_out)
        left = ~np.isin(model.index.places, erased)
        arrays["hashes"], arrays["places"] = model.index.hashes[left], model.index.places[left]
    arrays["sample"] = model.table[scan.numbers].to_numpy(dtype=float)
    words = [*scan.texts, *(name for name in (scan.id, scan.subject) if name is not None)]
    about["sample"] = json.loads(model.table[words].to_json(orient="split", index=False))
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("about.json", json.dumps(about))
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(values), allow_pickle=False)


def held(path: Any, engine: Any = None) -> ScannedModel:
    """A model from its ``.hold`` file, without a pass; the files must be those it was made from.

    Parameters
    ----------
    path : path of a file written by :func:`holdfast.hold`
    engine : as for :func:`holdfast.fit`

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd, holdfast as hf
    >>> folder = tempfile.TemporaryDirectory()
    >>> rng = np.random.default_rng(0)
    >>> loans = pd.DataFrame(rng.standard_normal((500, 2)), columns=["income", "savings"])
    >>> loans["paid"] = loans["income"] + rng.standard_normal(500)
    >>> loans["customer"] = [f"C{i}" for i in range(500)]
    >>> loans.to_parquet(f"{folder.name}/loans.parquet")
    >>> scan = hf.scan(folder.name, label="paid", id="customer")
    >>> hf.hold(hf.fit("ridge", scan), f"{folder.name}/loans.hold")
    >>> model = hf.held(f"{folder.name}/loans.hold")
    >>> people = loans[["income", "savings"]][:2]
    >>> model.deletions(people).effect(subjects=["C7"]).round(4)
    array([0.0003, 0.    ])
    >>> folder.cleanup()
    """
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("about.json"))
            arrays = {
                name.removesuffix(".npy"): _array(archive, name)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        if about.get("version") != VERSION:
            raise HoldfastError(f"{str(path)!r} is of another version: fit the model again")
        return _made(about, arrays, engine)
    except FileNotFoundError:
        raise HoldfastError(f"there is no file {str(path)!r}") from None
    except HoldfastError:
        raise
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError) as wrong:
        raise HoldfastError(
            f"{str(path)!r} is no .hold file, or damaged ({type(wrong).__name__}): fit the model "
            "again"
        ) from None


def _array(archive: zipfile.ZipFile, name: str) -> Any:
    """One array, after its header was looked at: it may claim more than there is."""
    described = archive.getinfo(name)
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0
        shape, _, kind = (header if version == (1, 0) else np.lib.format.read_array_header_2_0)(
            file
        )
    claimed = int(np.prod(shape, dtype=object)) * kind.itemsize
    if described.compress_type != zipfile.ZIP_STORED or claimed > described.file_size:
        raise ValueError("an array claims more than the file has")
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _made(about: Any, arrays: Any, engine: Any) -> ScannedModel:
    for file, size in about["files"].items():
        if not os.path.exists(file) or os.stat(file).st_size != size:
            raise HoldfastError(
                f"{file!r} is not the file it was: the sums are about another. Fit the model again"
            )
    parts = [RowGroup(*entry) for entry in about["parts"]]
    scan = Scan(parts, **about["columns"])
    labels = Labelled(scan.label, frozenset(about["labels"]["good"]), about["labels"]["sign"])
    moments, of_labels = (
        Moments(*(arrays[f"{kind}.{name}"] for name in Moments.__dataclass_fields__))
        for kind in ("moments", "label")
    )
    near = [(arrays[f"near.{i}"], first) for i, first in enumerate(about["near"])]
    recipe = Recipe(
        scan,
        labels,
        arrays["fills"],
        arrays["means"],
        arrays["scales"],
        arrays["gaps"],
        about["categories"],
        True,
        moments,
        arrays["gone"],
        near=near,
        rare=about["rare"],
    )
    estimator = ESTIMATORS[about["estimator"]](**about["parameters"])
    loss: Any = Squared()
    if not isinstance(estimator, LinearRegression | Ridge):
        loss = Reading.of(as_if_fitted(estimator, about["classes"])).loss
    problem = Posed(estimator, loss, about["strength"], about["classes"], about["average"])
    names = arrays["names"]
    found = Gathered(
        arrays["triangle"],
        arrays["phi"],
        arrays["y"],
        arrays["missing"],
        np.ones(len(names)),
        Outside(scan.rows - len(names), 1.0, np.inf, np.inf),
        np.inf,
        0.0,
        arrays["scored"],
        float(arrays["labels"][0]),
        [_sample(about["sample"], arrays["sample"], scan)],
    )
    index = None
    if "hashes" in arrays:
        index = IdIndex(scan, str(scan.key), arrays["hashes"], arrays["places"])
    made = ScannedModel(recipe, engine_of(engine), problem, arrays["theta"], names, found, index)
    made.label_moments, made.held_out = of_labels, arrays["held_out"]
    return made


def _sample(words: Any, numbers: Any, scan: Scan) -> pd.DataFrame:
    """The rows that are kept, as they were in the files."""
    found = pd.DataFrame(words["data"], columns=words["columns"], index=range(len(numbers)))
    return pd.concat([pd.DataFrame(numbers, columns=scan.numbers), found], axis=1)
