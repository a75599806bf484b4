"""Fitted models from files and to files."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.archives import checked_zip, refuse_if_larger
from holdfast.cases.compiled import check_compiled
from holdfast.cases.remarks import Remarks
from holdfast.cases.trust import named_in, refused
from holdfast.errors import HoldfastError
from holdfast.tables import existing_file

#: files whose loading runs whatever code they hold
RUNS_CODE = (".pkl", ".pickle", ".joblib")


def loaded_model(path: Path, allow_pickle: bool, trust: Sequence[str], remarks: Remarks) -> Any:
    """A fitted estimator; files that run code only where that is allowed."""
    file = existing_file(path)
    suffix = file.suffix.lower()
    if suffix == ".skops":
        return _from_skops(file, trust, remarks)
    if suffix not in RUNS_CODE:
        raise HoldfastError(
            f"{str(path)!r}: models come as .skops files (skops.io.dump), or with ⟦allow_pickle⟧ "
            "as .pkl, .pickle or .joblib"
        )
    if not allow_pickle:
        raise HoldfastError(
            f"{str(path)!r} would run whatever code it holds when it is loaded. Save the model "
            "with skops.io.dump instead, or, if you trust where it comes from, pass ⟦allow_pickle⟧"
        )
    remarks.add(
        f"Warning: {file.name} was loaded as a pickle, which runs the code it holds.",
        shareable=True,
    )
    try:
        if suffix == ".joblib":
            import joblib

            return joblib.load(file)
        with file.open("rb") as stream:
            return pickle.load(stream)  # noqa: S301 (allowed by name, with a warning)
    except Exception as failure:  # whatever the code in it does
        raise _cannot_be_loaded(file, failure) from None


def _from_skops(file: Path, trust: Sequence[str], remarks: Remarks) -> Any:
    """The model in an archive that is read once, checked, and only then handed on."""
    from skops import io

    size = file.stat().st_size
    refuse_if_larger(f"{str(file)!r}", size, size)
    try:
        content = file.read_bytes()
        with checked_zip(content, f"{str(file)!r}") as archive:
            schema = json.loads(archive.read("schema.json"))
        _refuse_old(schema, file)
        _refuse_folders(schema, file)
        strange = refused(schema, trust)
        if not strange:  # skops looks at the same names its own way
            asked = io.get_untrusted_types(data=content)
            named = {*(name.full for name in named_in(schema)), *trust}
            strange = [name for name in asked if name not in named]
        if strange:
            raise HoldfastError(
                f"{str(file)!r} holds names that are not known to be safe: "
                f"{', '.join(strange[:5])}. Loading them runs their code. If they are yours, pass "
                "⟦trust⟧ NAME for each"
            )
        for name in dict.fromkeys(trust):
            if name in asked:
                said = f"Warning: {name} in {file.name} runs its own code: it is trusted by name."
                remarks.add(said, shareable=True)
        model = io.loads(content, trusted=asked)
        check_compiled(model, f"{str(file)!r}")
    except HoldfastError:
        raise
    except (zipfile.BadZipFile, KeyError) as failure:
        raise HoldfastError(
            f"{str(file)!r} is not a model saved by skops.io.dump: {failure}"
        ) from None
    except Exception as failure:
        raise _cannot_be_loaded(file, failure) from None
    return model


def _refuse_old(schema: Any, file: Path) -> None:
    """The first version of the format named functions a second time, where nobody looks."""
    if not isinstance(schema, dict) or schema.get("protocol") in (0, False, None):
        raise HoldfastError(
            f"{str(file)!r} was saved by a version of skops that is too old: save it again"
        )


def _refuse_folders(schema: Any, file: Path) -> None:
    """A pipeline with a cache folder would read pickles from it at every refit."""
    open_ = [schema]
    while open_:
        part = open_.pop()
        if isinstance(part, list):
            open_ += part
        elif isinstance(part, dict):
            memory = part.get("memory")
            if isinstance(memory, dict) and str(memory.get("content")).startswith('"'):
                raise HoldfastError(
                    f"{str(file)!r} caches its steps in a folder (memory=…), from which code "
                    "could be loaded: set memory=None and save it again"
                )
            open_ += list(part.values())


def _cannot_be_loaded(file: Path, failure: Exception) -> HoldfastError:
    return HoldfastError(
        f"{str(file)!r} cannot be loaded: {type(failure).__name__}: {str(failure)[:200]}"
    )


def save_model(estimator: Any, path: Path) -> None:
    """Write a fitted estimator as a .skops file."""
    from skops import io

    io.dump(estimator, path)
