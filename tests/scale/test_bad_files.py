"""What is wrong with files is said with the file and the row group, and nothing is left behind."""

from __future__ import annotations

import errno
import gc
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast.scale import spill
from tables_in_files import loans, written


def fit(folder: Path, **options):
    return hf.fit("ridge", hf.scan(folder, **{"label": "paid", "id": "customer", **options}))


def spilled() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{spill.NAME}{os.getpid()}-*"))


def test_files_with_different_columns(tmp_path) -> None:
    folder = written(loans(300), tmp_path / "t", files=1)
    loans(50).drop(columns="rate").to_parquet(folder / "z.parquet")
    with pytest.raises(hf.HoldfastError, match=r"z\.parquet' lacks the column 'rate'"):
        fit(folder)
    loans(50).assign(more=1).to_parquet(folder / "z.parquet")
    with pytest.raises(hf.HoldfastError, match=r"z\.parquet' also has the column 'more'"):
        fit(folder)


def test_files_with_different_types(tmp_path) -> None:
    folder = written(loans(300), tmp_path / "t", files=1)
    other = loans(50)
    other["rate"] = other["rate"].astype(str)
    other.to_parquet(folder / "z.parquet")
    with pytest.raises(hf.HoldfastError, match=r"z\.parquet': the column 'rate' is text"):
        fit(folder)


def test_whole_numbers_in_one_file_and_fractions_in_another_are_numbers(tmp_path) -> None:
    folder = written(loans(300), tmp_path / "t", files=1)
    other = loans(100, seed=1)
    other["rate"] = other["rate"].round().astype(int)
    other["customer"] = [f"D{i}" for i in range(100)]
    other.to_parquet(folder / "z.parquet")
    assert fit(folder).many == 400


def test_a_row_group_that_cannot_be_read_is_named(tmp_path) -> None:
    folder = written(loans(3000), tmp_path / "t", files=1, group=500)
    file = folder / "part-0.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4000] = b"\xff" * 4000
    file.write_bytes(data)
    with pytest.raises(hf.HoldfastError, match=r"part-0\.parquet', row group \d+ cannot be read"):
        fit(folder)


def test_files_that_are_no_tables(tmp_path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"not a table")
    with pytest.raises(hf.HoldfastError, match=r"a\.parquet' cannot be read"):
        fit(tmp_path)
    with pytest.raises(hf.HoldfastError, match="there is no file"):
        hf.scan(tmp_path / "nowhere*.parquet", label="paid")
    (tmp_path / "empty").mkdir()
    with pytest.raises(hf.HoldfastError, match="has no .parquet or .csv file"):
        hf.scan(tmp_path / "empty", label="paid")
    (tmp_path / "b.txt").write_text("x")
    with pytest.raises(hf.HoldfastError, match="neither .parquet nor .csv"):
        hf.scan(tmp_path / "b.txt", label="paid")


def test_an_empty_file_among_many(tmp_path) -> None:
    folder = written(loans(300), tmp_path / "t", files=1)
    loans(10).iloc[:0].to_parquet(folder / "z.parquet")
    with pytest.raises(hf.HoldfastError, match=r"z\.parquet' has no rows"):
        fit(folder)
    (folder / "z.parquet").write_bytes(b"")
    with pytest.raises(hf.HoldfastError, match=r"z\.parquet' cannot be read"):
        fit(folder)


def test_an_id_that_appears_twice_across_files(tmp_path, monkeypatch) -> None:
    from holdfast.models import ids

    table = loans(600)
    table.loc[550, "customer"] = "C3"
    folder = written(table, tmp_path / "t", files=2, group=100)
    match = r"part-0\.parquet', row group 0 \(row 4 of it\) and in '.*part-1\.parquet', row group 2"
    with pytest.raises(hf.HoldfastError, match=match):
        fit(folder)
    monkeypatch.setattr(ids, "BUCKET", 64)  # the same through buckets on disk
    with pytest.raises(hf.HoldfastError, match=match):
        fit(folder)
    table.loc[550, "customer"] = "C550"
    model = fit(written(table, tmp_path / "u", files=2, group=100))
    assert model.positions_of(["C550", "C3"]).tolist() == [3, 550]
    del model
    gc.collect()


def test_ids_that_are_no_ids(tmp_path) -> None:
    table = loans(300)
    table.loc[7, "customer"] = None
    with pytest.raises(hf.HoldfastError, match="row group 0: the id 'customer' is missing in 1"):
        fit(written(table, tmp_path / "t"))
    table.loc[7, "customer"] = " C7"
    with pytest.raises(hf.HoldfastError, match="white space"):
        fit(written(table, tmp_path / "t"))


def test_cells_that_are_no_numbers(tmp_path) -> None:
    table = loans(300)
    table.loc[7, "rate"] = np.inf
    with pytest.raises(hf.HoldfastError, match="row group 0: the column 'rate' has an infinite"):
        fit(written(table, tmp_path / "t"))
    table.loc[7, "rate"] = 1.0
    table.loc[7, "paid"] = np.nan
    with pytest.raises(hf.HoldfastError, match="row group 0: the label 'paid' is missing in 1"):
        fit(written(table, tmp_path / "t"))
    table["paid"] = 1.0
    with pytest.raises(hf.HoldfastError, match="in every row"):
        fit(written(table, tmp_path / "t"))
    table = loans(300).assign(rate=np.nan)
    with pytest.raises(hf.HoldfastError, match="the column 'rate' is empty"):
        fit(written(table, tmp_path / "t"))


def test_columns_that_are_not_there_or_no_features(tmp_path) -> None:
    folder = written(loans(300), tmp_path / "t")
    with pytest.raises(hf.HoldfastError, match="has no column 'payed'; did you mean 'paid'"):
        fit(folder, label="payed")
    other = loans(300).assign(day=pd.Timestamp("2026-01-01"))
    with pytest.raises(hf.HoldfastError, match="the column 'day' is of type timestamp"):
        fit(written(other, tmp_path / "u"))
    assert fit(tmp_path / "u", drop=["day"]).many == 300


def as_csv(table: pd.DataFrame, folder: Path, **options) -> Path:
    folder.mkdir(exist_ok=True)
    table.to_csv(folder / "t.csv", index=False, **options)
    return folder


def test_csv_by_blocks_is_the_same_table(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(spill, "BLOCK", 1 << 14)
    table = loans(2000, gaps=True)
    table["income"] = table["income"].round(3)
    model = fit(as_csv(table, tmp_path / "c"))
    assert len(model.recipe.scan.parts) > 3
    other = fit(written(table, tmp_path / "p"))
    X = table.drop(columns=["paid", "customer"]).iloc[:30]
    np.testing.assert_allclose(model.scores(X), other.scores(X), atol=1e-9)
    assert len(spilled()) == 1
    folder = spilled()[0]
    assert folder.stat().st_mode & 0o777 == 0o700
    del model
    gc.collect()
    assert not spilled()


def test_ids_of_csv_files_keep_their_zeros(tmp_path) -> None:
    table = loans(300)
    table["customer"] = [f"{i:05}" for i in range(300)]
    model = fit(as_csv(table, tmp_path / "c"))
    assert model.positions_of(["00007"]).tolist() == [7]


@pytest.mark.parametrize("cell", ["abc", "12;3"])
def test_a_column_whose_type_drifts(tmp_path, monkeypatch, cell: str) -> None:
    monkeypatch.setattr(spill, "BLOCK", 1 << 14)
    table = loans(2000).astype({"rate": object})
    table.loc[1900, "rate"] = cell
    match = r"t\.csv', block \d+: the column 'rate' has numbers in the first block"
    with pytest.raises(hf.HoldfastError, match=match) as failure:
        fit(as_csv(table, tmp_path / "c"))
    assert cell not in str(failure.value)
    assert not spilled()


def test_a_row_that_is_too_short(tmp_path) -> None:
    folder = as_csv(loans(300), tmp_path / "c")
    with (folder / "t.csv").open("a") as file:
        file.write("1,2,Mr Smith\n")
    with pytest.raises(hf.HoldfastError, match="another number of cells") as failure:
        fit(folder)
    assert "Smith" not in str(failure.value)
    assert not spilled()


def test_an_empty_csv_file(tmp_path) -> None:
    folder = as_csv(loans(300), tmp_path / "c")
    (folder / "z.csv").write_text("")
    with pytest.raises(hf.HoldfastError, match=r"z\.csv' has no rows"):
        fit(folder)
    assert not spilled()


def test_a_full_disk(tmp_path, monkeypatch) -> None:
    from pyarrow import parquet

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = as_csv(loans(300), tmp_path / "c")
    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    with pytest.raises(hf.HoldfastError, match="no space is left"):
        fit(folder)
    assert not spilled()


def test_what_a_killed_process_left_is_removed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, alive = tmp_path / f"{spill.NAME}999999999-x", tmp_path / f"{spill.NAME}1-x"
    for folder in (dead, alive):
        folder.mkdir()
    made = spill.Spill()
    assert not dead.exists()
    assert alive.exists()
    made.remove()


def test_words_that_stand_for_missing_numbers_are_words_among_texts(tmp_path) -> None:
    table = loans(400)
    table["country"] = np.where(np.arange(400) % 2, "NA", "FR")
    table["rate"] = table["rate"].round(3).astype(object)
    table.loc[::9, "rate"] = "n/a"
    model = fit(as_csv(table, tmp_path / "c"))
    texts = dict(zip(model.recipe.scan.texts, model.recipe.categories, strict=True))
    assert texts["country"] == ["FR", "NA"]
    assert model.recipe.moments.count[model.recipe.scan.numbers.index("rate")] < 400


def test_a_csv_file_that_is_not_utf8(tmp_path) -> None:
    folder = as_csv(loans(300).assign(town="Zürich"), tmp_path / "c", encoding="latin-1")
    with pytest.raises(hf.HoldfastError, match="not UTF-8"):
        fit(folder)


def test_labels_that_a_kind_cannot_take(tmp_path) -> None:
    table = loans(300)
    found = hf.scan(written(table, tmp_path / "t"), label="paid", id="customer")
    for kind in ("gamma", "poisson"):
        with pytest.raises(hf.HoldfastError, match="predicts amounts"):
            hf.fit(kind, found)
    table.loc[3, "paid"] = np.inf
    with pytest.raises(hf.HoldfastError, match="the label 'paid' has an infinite number"):
        fit(written(table, tmp_path / "u"))


def test_ids_of_kinds_that_are_none(tmp_path) -> None:
    table = loans(300).assign(day=pd.Timestamp("2026-01-01"))
    folder = written(table, tmp_path / "t")
    with pytest.raises(hf.HoldfastError, match="the ids in 'day' are of type"):
        hf.scan(folder, label="paid", id="day")
    with pytest.raises(hf.HoldfastError, match="rows and people at once"):
        hf.scan(folder, label="paid", id="customer", subject="customer", drop=["day"])
    with pytest.raises(hf.HoldfastError, match="paths must be"):
        hf.scan(None, label="paid")


def test_a_full_disk_for_the_index_of_ids(tmp_path, monkeypatch) -> None:
    from holdfast.models import ids

    real = Path.open

    def full(self, mode="r", *more, **options):
        if mode == "ab":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, mode, *more, **options)

    folder = written(loans(600), tmp_path / "t")
    monkeypatch.setattr(ids, "BUCKET", 64)
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(hf.HoldfastError, match="no space is left"):
        fit(folder)
    assert not spilled()
