"""Fitted models from files and to files."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from holdfast.archives import check_array, check_arrays, checked_zip, member, refuse_if_larger
from holdfast.cases.native import NATIVE, from_native
from holdfast.cases.native.inside_skops import made_anew
from holdfast.cases.remarks import Remarks
from holdfast.cases.restored import check_restored
from holdfast.cases.trust import named_in, nodes_of, refused
from holdfast.errors import HoldfastError
from holdfast.tables import existing_file

#: bytes of a model's description, numbers not counted
MOST_SCHEMA = 64 * 10**6

#: files whose loading runs whatever code they hold
RUNS_CODE = (".pkl", ".pickle", ".joblib")


def loaded_model(
    path: Path,
    allow_pickle: bool,
    trust: Sequence[str],
    remarks: Remarks,
    parameters: Mapping[str, Any] | None = None,
) -> Any:
    """A fitted estimator; files that run code only where that is allowed.

    ``parameters`` are of the fit, for what a boosting library's own file does not say.
    """
    file = existing_file(path)
    suffix = file.suffix.lower()
    if suffix in NATIVE:
        return from_native(file, parameters or {})
    if parameters:
        raise HoldfastError(
            f"⟦param⟧: {str(path)!r} holds an estimator with its own parameters; they are given "
            f"for ⟦model⟧ KIND, and for {', '.join(NATIVE)} files"
        )
    if suffix == ".skops":
        return _from_skops(file, trust, remarks)
    if suffix not in RUNS_CODE:
        raise HoldfastError(
            f"{str(path)!r}: models come as .skops files (skops.io.dump), as boosting libraries "
            f"save them ({', '.join(NATIVE)}), or with ⟦allow_pickle⟧ as .pkl, .pickle or .joblib"
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

    what = f"{str(file)!r}"
    size = file.stat().st_size
    refuse_if_larger(what, size, size)
    try:
        schema, content = _checked(file.read_bytes(), what)
        strange = refused(schema, trust)
        if not strange:  # skops looks at the same names its own way
            asked = io.get_untrusted_types(data=content)
            named = {*(name.full for name in named_in(schema)), *trust}
            strange = [name for name in asked if name not in named]
        if strange:
            raise HoldfastError(
                f"{what} holds names that are not known to be safe: {', '.join(strange[:5])}. "
                "Loading them runs their code. If they are yours, pass ⟦trust⟧ NAME for each"
            )
        for name in dict.fromkeys(trust):
            if name in asked:
                said = f"Warning: {name} in {file.name} runs its own code: it is trusted by name."
                remarks.add(said, shareable=True)
        model = io.loads(content, trusted=asked)
        check_restored(model, what)
    except HoldfastError:
        raise
    except (zipfile.BadZipFile, KeyError) as failure:
        raise HoldfastError(
            f"{str(file)!r} is not a model saved by skops.io.dump: {failure}"
        ) from None
    except Exception as failure:
        raise _cannot_be_loaded(file, failure) from None
    return model


def _checked(packed: bytes, what: str) -> tuple[Any, bytes]:
    """The schema of an archive, and the archive made anew of what was looked at.

    Identities of nodes are left out: with them a node can stand for another one, in a role in
    which that one was not judged.
    """
    with checked_zip(packed, what) as archive:
        if archive.getinfo("schema.json").file_size > MOST_SCHEMA:
            raise HoldfastError(f"{what} describes more than a model: its schema is too long")
        schema = json.loads(member(archive, "schema.json", what))
        if not isinstance(schema, dict) or schema.get("protocol") in (0, False, None):
            # the first version of the format named functions a second time, where nobody looks
            raise HoldfastError(f"{what} was saved by a version of skops that is too old")
        files, unpacked = {}, 0
        for node in nodes_of(schema):
            if "__loader__" not in node:
                raise HoldfastError(f"{what} is no file that skops.io.dump writes")
            node.pop("__id__", None)
            name = node.get("file")
            if name is None:
                continue
            if name not in files:
                files[name] = member(archive, str(name), what)
                if node["__loader__"] == "NdArrayNode":
                    check_array(files[name], f"{name!r} in {what}")
            inner = len(files[name])
            if node["__loader__"] == "SparseMatrixNode":
                inner = check_arrays(files[name], f"{name!r} in {what}")
            unpacked += inner  # every use is a copy
        for node in nodes_of(schema):
            made_anew(node, files, what)
    refuse_if_larger(what, len(packed), unpacked)
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as clean:
        clean.writestr("schema.json", json.dumps(schema))
        for name, content in files.items():
            clean.writestr(name, content)
    return schema, made.getvalue()


def _cannot_be_loaded(file: Path, failure: Exception) -> HoldfastError:
    return HoldfastError(
        f"{str(file)!r} cannot be loaded: {type(failure).__name__}: {str(failure)[:200]}"
    )


def save_model(estimator: Any, path: Path) -> None:
    """Write a fitted estimator as a .skops file."""
    from skops import io

    io.dump(estimator, path)
