"""A training table without some of its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.cases.files import read
from holdfast.cases.settings import Settings
from holdfast.tables import as_csv, is_parquet


def write_without(settings: Settings, rows: Any, place: Path) -> None:
    """The training file without some rows, its cells as they were."""
    if is_parquet(settings.train) or is_parquet(place):
        table = read(settings, settings.train)
    else:
        table = pd.read_csv(
            settings.train,
            sep=settings.delimiter,
            dtype=str,
            keep_default_na=False,
            index_col=False,
            header=None,  # names are cells like the others
            encoding="utf-8-sig",
            compression=None,
        )
        table = table.set_axis(table.iloc[0].tolist(), axis=1).iloc[1:]
    keep = np.setdiff1d(np.arange(len(table)), rows)
    table = table.iloc[keep]
    for name, kind in table.dtypes.items():
        if isinstance(kind, pd.CategoricalDtype):  # else it remembers what nobody has any more
            table[name] = table[name].cat.remove_unused_categories()
    if is_parquet(place):
        table.to_parquet(place, index=False)
    else:
        place.write_text(as_csv(table, settings.delimiter), encoding="utf-8", newline="")
