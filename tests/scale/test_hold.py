"""Sums kept beside a model: personal data, no code, replaced when somebody goes."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

import holdfast as hf
from holdfast.models.ids import hashed
from tables_in_files import in_memory, loans, scanned, written


@pytest.mark.parametrize("kind", ["ridge", "logistic", "poisson"])
def test_a_model_read_back_is_the_same_without_a_pass(tmp_path, kind: str) -> None:
    table = loans(1900, kind=kind, gaps=True)
    model = scanned(table, tmp_path / "t", kind)
    hf.hold(model, tmp_path / "m.hold")
    again = hf.held(tmp_path / "m.hold")
    X = table.drop(columns=["paid", "customer"]).iloc[:30]
    np.testing.assert_allclose(again.scores(X), model.scores(X), atol=1e-12)
    assert again.passes == 0
    assert again.positions_of(["C1899"]).tolist() == [1899]
    np.testing.assert_allclose(
        again.deletions(X).effect(subjects=["C1899"]),
        model.deletions(X).effect(subjects=["C1899"]),
        atol=1e-10,
    )
    np.testing.assert_allclose(
        again.without([1899, 3]).scores(X),
        in_memory(table, kind).without([3, 1899]).scores(X),
        atol=1e-8,
    )
    assert again.median_label == pytest.approx(model.median_label)


def test_it_is_its_owners_only_and_holds_no_code(tmp_path) -> None:
    model = scanned(loans(400), tmp_path / "t", "ridge")
    hf.hold(model, tmp_path / "m.hold")
    assert (tmp_path / "m.hold").stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(tmp_path / "m.hold") as archive:
        names = archive.namelist()
        assert json.loads(archive.read("about.json"))["version"] == 1
    assert all(name.endswith((".npy", ".json")) for name in names)


def test_an_array_of_objects_is_refused(tmp_path) -> None:
    model = scanned(loans(400), tmp_path / "t", "ridge")
    hf.hold(model, tmp_path / "m.hold")

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    with zipfile.ZipFile(tmp_path / "m.hold") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    hostile = io.BytesIO()
    np.save(hostile, np.array([Evil()], dtype=object), allow_pickle=True)
    parts["theta.npy"] = hostile.getvalue()
    with zipfile.ZipFile(tmp_path / "bad.hold", "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    with pytest.raises(hf.HoldfastError, match="is no .hold file, or damaged"):
        hf.held(tmp_path / "bad.hold")
    assert not (tmp_path / "ran").exists()


def test_files_that_changed_or_are_none(tmp_path) -> None:
    table = loans(400)
    model = scanned(table, tmp_path / "t", "ridge")
    hf.hold(model, tmp_path / "m.hold")
    written(table.iloc[:-1], tmp_path / "t")
    with pytest.raises(hf.HoldfastError, match="is not the file it was"):
        hf.held(tmp_path / "m.hold")
    (tmp_path / "x.hold").write_bytes(b"nonsense")
    with pytest.raises(hf.HoldfastError, match="damaged"):
        hf.held(tmp_path / "x.hold")
    with pytest.raises(hf.HoldfastError, match="there is no file"):
        hf.held(tmp_path / "y.hold")


def test_csv_files_have_no_rows_to_look_up(tmp_path) -> None:
    loans(300).to_csv(tmp_path / "t.csv", index=False)
    model = hf.fit("ridge", hf.scan(tmp_path / "t.csv", label="paid", id="customer"))
    with pytest.raises(hf.HoldfastError, match="Write the table as Parquet"):
        hf.hold(model, tmp_path / "m.hold")
    assert not (tmp_path / "m.hold").exists()


def test_nothing_of_an_erased_person_is_kept(tmp_path) -> None:
    table = loans(400)
    table.loc[7, "wealth"] = 123456.0
    model = scanned(table, tmp_path / "t", "ridge").without(subjects=["C7"])
    hf.hold(model, tmp_path / "m.hold")
    theirs = hashed(["C7"])[0]
    with zipfile.ZipFile(tmp_path / "m.hold") as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as file:
                    values = np.lib.format.read_array(file)
                assert not np.any(values == theirs), name
                assert not np.any(values == 123456.0), name
        assert '"C7"' not in archive.read("about.json").decode()
    assert hf.held(tmp_path / "m.hold").many == 399


def test_an_array_that_claims_more_than_there_is(tmp_path) -> None:
    model = scanned(loans(400), tmp_path / "t", "ridge")
    hf.hold(model, tmp_path / "m.hold")
    with zipfile.ZipFile(tmp_path / "m.hold") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)}
    )
    parts["theta.npy"] = header.getvalue() + b"0" * 64
    with zipfile.ZipFile(tmp_path / "bad.hold", "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    with pytest.raises(hf.HoldfastError, match="damaged"):
        hf.held(tmp_path / "bad.hold")
