"""Fitted models from files and to files."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.tables import existing_file

#: files whose loading runs whatever code they hold
RUNS_CODE = (".pkl", ".pickle", ".joblib")

#: what a .skops file may hold without being asked about
TRUSTED = ("sklearn.", "holdfast.", "numpy.dtype")


def loaded_model(path: Path, allow_pickle: bool, trust: Sequence[str], notes: list[str]) -> Any:
    """A fitted estimator; files that run code only where that is allowed."""
    file = existing_file(path)
    suffix = file.suffix.lower()
    if suffix == ".skops":
        return _from_skops(file, trust)
    if suffix not in RUNS_CODE:
        raise HoldfastError(
            f"{str(path)!r}: models come as .skops files (skops.io.dump), or with --allow-pickle "
            "as .pkl, .pickle or .joblib"
        )
    if not allow_pickle:
        raise HoldfastError(
            f"{str(path)!r} would run whatever code it holds when it is loaded. Save the model "
            "with skops.io.dump instead, or, if you trust where it comes from, pass --allow-pickle"
        )
    notes.append(f"Warning: {file.name} was loaded as a pickle, which runs the code it holds.")
    try:
        if suffix == ".joblib":
            import joblib

            return joblib.load(file)
        with file.open("rb") as stream:
            return pickle.load(stream)
    except Exception as failure:  # whatever the code in it does
        raise HoldfastError(
            f"{str(path)!r} cannot be loaded: {type(failure).__name__}: {str(failure)[:200]}"
        ) from None


def _from_skops(file: Path, trust: Sequence[str]) -> Any:
    from skops import io

    try:
        unknown = io.get_untrusted_types(file=file)
        known = [name for name in unknown if name.startswith(TRUSTED)]
        strange = [name for name in unknown if name not in known and name not in trust]
        if strange:
            raise HoldfastError(
                f"{str(file)!r} holds types that are not known to be safe: "
                f"{', '.join(strange[:5])}. If you trust them, pass --trust NAME for each"
            )
        return io.load(file, trusted=[*known, *(n for n in trust if n in unknown)])
    except HoldfastError:
        raise
    except (zipfile.BadZipFile, KeyError) as failure:
        raise HoldfastError(
            f"{str(file)!r} is not a model saved by skops.io.dump: {failure}"
        ) from None
    except Exception as failure:
        raise HoldfastError(
            f"{str(file)!r} cannot be loaded: {type(failure).__name__}: {str(failure)[:200]}"
        ) from None


def save_model(estimator: Any, path: Path) -> None:
    """Write a fitted estimator as a .skops file."""
    from skops import io

    io.dump(estimator, path)
