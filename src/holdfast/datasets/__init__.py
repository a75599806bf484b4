"""Public data sets, found or fetched, verified and cleaned."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from holdfast.arguments import near_name
from holdfast.datasets import admission, bundled, cache, compas, diabetes, heloc
from holdfast.datasets.dataset import Dataset
from holdfast.datasets.sources import Source, given_file, raw_bytes
from holdfast.errors import HoldfastError

#: each says its SOURCE, its TASKS and the RULES of what can change, and cleans the raw bytes
FETCHED: dict[str, ModuleType] = {
    "admission": admission,
    "heloc": heloc,
    "compas": compas,
    "diabetes": diabetes,
}
NAMES = (*FETCHED, *bundled.TABLES)


def load_dataset(
    name: str,
    task: str | None = None,
    *,
    path: Any = None,
    duplicates: str = "drop",
    progress: Callable[[str], None] | None = None,
) -> Dataset:
    """A public data set, cleaned.

    Looked for at ``path``, in the folder named by ``HOLDFAST_DATA``, in the user's cache; else
    fetched. The hash of the file is checked; only the cleaned table is kept.

    Parameters
    ----------
    name : str
        ``"admission"``, ``"heloc"``, ``"compas"``, ``"diabetes"`` (the paper's);
        ``"breast-cancer"``, ``"diabetes-progression"`` (with scikit-learn, never fetched).
    task : str, optional
        What is predicted; by default the first of ``holdfast.datasets.tasks_of``.
    path : str or path, optional
        The raw file, or a folder that holds it (``law_data.csv``, ``heloc_dataset.csv``,
        ``compas-scores-two-years.csv``, ``diabetic_data.csv``; also gzipped, also in a folder
        named like the data set).
    duplicates : {"drop", "keep"}
        Rows that equal an earlier one in everything the file says but the number of the row.
    progress : callable, optional
        Told in words what is being done.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import holdfast as hf
    >>> data = hf.load_dataset("breast-cancer")
    >>> data.X.shape, data.favourable, data.task
    ((569, 30), 1, 'classification')
    """
    if not isinstance(name, str) or name not in NAMES:
        raise HoldfastError(
            f"there is no data set {name!r}{near_name(name, NAMES)}. There are: {', '.join(NAMES)}"
        )
    if duplicates not in ("drop", "keep"):
        raise HoldfastError(f"duplicates must be 'drop' or 'keep', got {duplicates!r}")
    tasks = tasks_of(name)
    task = next(iter(tasks)) if task is None else task
    if not isinstance(task, str) or task not in tasks:
        raise HoldfastError(
            f"task must be one of {', '.join(map(repr, tasks))} for {name!r}, got {task!r}"
        )
    if name in bundled.TABLES:
        if path is not None:
            raise HoldfastError(f"{name!r} comes with scikit-learn: it has no path")
        return bundled.load(name, task)
    module = FETCHED[name]
    table, origin = _cleaned(module, name, path, progress or (lambda said: None))
    before = len(table)
    kept = table[~table["duplicate"]] if duplicates == "drop" else table
    X, y = module.posed(kept.drop(columns=["duplicate"]), task)
    X = X.set_axis(kept.index.astype(str), axis=0)
    has_subjects = module.SUBJECT is not None
    return Dataset(
        name=name,
        task=task,
        X=X,
        y=np.asarray(y),
        actionability=module.RULES,
        favourable="high" if task == "regression" else 1,
        subjects=kept[module.SUBJECT].astype(str).to_numpy(object) if has_subjects else None,
        about={
            "predicted": tasks[task],
            "file": module.SOURCE.file,
            "sha256": module.SOURCE.sha256,
            "from": origin,
            "rows before duplicates were dropped": before,
        },
    )


def tasks_of(name: str) -> dict[str, str]:
    """The tasks of a data set, and what is predicted in each."""
    tasks: dict[str, str] = (
        bundled.TABLES[name].tasks if name in bundled.TABLES else FETCHED[name].TASKS
    )
    return tasks


def source_of(name: str) -> Source | None:
    """Where a data set's file comes from; ``None`` for one that comes with scikit-learn."""
    return None if name in bundled.TABLES else FETCHED[name].SOURCE


def path_with(name: str, folder: Any) -> Any:
    """The folder, where it holds this data set's file; else ``None``: look in the usual places."""
    source = source_of(name)
    if folder is None or source is None:
        return None
    try:
        given_file(source, name, folder)
    except HoldfastError:
        return None
    return folder


def _cleaned(
    module: ModuleType, name: str, path: Any, tell: Callable[[str], None]
) -> tuple[pd.DataFrame, str]:
    """The cleaned table, and where it was found."""
    source: Source = module.SOURCE
    file = given_file(source, name, path)
    if file is None:
        known = cache.read(name, source, module.VERSION)
        if known is not None:
            return known, "the user's cache"
    raw, origin = raw_bytes(source, name, file, tell)
    table: pd.DataFrame = module.clean(raw)
    if file is None:
        cache.write(name, source, module.VERSION, table)
    return table, origin
