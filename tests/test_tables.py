"""Tables from files: typed columns, and errors that name file, line, column and value."""

import os

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast import tables
from holdfast.files import Outputs
from holdfast.tables import like, read_table, typed


def write(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "has no rows"),
        ("a,b\n1,2\n1,2,3\n", "line 3, saw 3"),
        ("a,b\n1,2,3\n4,5,6\n", "more cells than its header"),
        ("a;b\n1;2\n", "delimited by ';'"),
        ("a\tb\n1\t2\n", "delimited by a tab"),
        ("a,a\n1,2\n", "'a' appears twice"),
        (b"\xff\xfea,b\n1,2\n", "has no rows"),
        (b"\0\xff\xe9,b\n1,\xe9\n", "UTF-8"),
        ('a,b\n"1,2\n', "well-formed"),
    ],
)
def test_malformed_csv(tmp_path, content, message):
    with pytest.raises(hf.HoldfastError, match=message):
        read_table(write(tmp_path, content))


def test_no_file(tmp_path):
    with pytest.raises(hf.HoldfastError, match="not there"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(hf.HoldfastError, match="a directory"):
        read_table(tmp_path)
    with pytest.raises(hf.HoldfastError, match="not there"):
        read_table("x" * 5000)
    with pytest.raises(hf.HoldfastError, match="not a Parquet file"):
        read_table(write(tmp_path, "a,b\n1,2\n", "t.parquet"))
    with pytest.raises(hf.HoldfastError, match="one character"):
        read_table(write(tmp_path, "a,b\n1,2\n"), delimiter="ab")


def test_a_file_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "big.csv"
    with path.open("wb") as file:
        file.write(b"a,b\n1,2\n")
        file.truncate(2 * 10**9)  # sparse: takes no space
    monkeypatch.setattr(tables, "available_memory", lambda: 10**9)
    with pytest.raises(hf.HoldfastError, match=r"2\.0 GB.*6\.0 GB of memory"):
        read_table(path)


def test_memory_that_runs_out_while_reading(tmp_path, monkeypatch):
    def exhausted(*args, **options):
        raise MemoryError

    monkeypatch.setattr(pd, "read_csv", exhausted)
    with pytest.raises(hf.HoldfastError, match="not enough memory"):
        read_table(write(tmp_path, "a,b\n1,2\n"))


def test_columns_are_numbers_or_text(tmp_path):
    text = (
        "id,n,gaps,word,flag,code\n007,1,NA,none,True,0\n008,2.5,?,NA,False,1\n009,3,4,x,True,3+\n"
    )
    table = read_table(write(tmp_path, text), ["id"])
    assert table["id"].tolist() == ["007", "008", "009"]
    found = typed(table[["n", "gaps", "word", "flag"]], "t.csv")
    assert found["n"].dtype == float
    assert found["gaps"].isna().tolist() == [True, True, False]
    assert found["word"].tolist() == ["none", "NA", "x"]  # in text these are words
    assert found["flag"].tolist() == ["True", "False", "True"]
    with pytest.raises(hf.HoldfastError, match=r"row 3, column 'code': '3\+' is not a number"):
        typed(table[["code"]], "t.csv")
    assert typed(table[["code"]], "t.csv", ["code"])["code"].tolist() == ["0", "1", "3+"]


def test_infinite_and_dates_are_refused():
    with pytest.raises(hf.HoldfastError, match="row 2, column 'a': the value is infinite"):
        typed(pd.DataFrame({"a": [1.0, np.inf]}), "t")
    with pytest.raises(hf.HoldfastError, match="no column that is a number or a text"):
        typed(pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), "t")


def test_people_are_typed_like_the_training_table():
    model = pd.DataFrame({"n": [1.0, 2.0], "code": ["1", "2"]})
    people = pd.DataFrame({"n": ["3", "NA"], "code": [1, 2]})
    found = like(people, model, "people.csv")
    assert found["n"].iloc[0] == 3
    assert np.isnan(found["n"].iloc[1])
    assert found["code"].tolist() == ["1", "2"]
    with pytest.raises(hf.HoldfastError, match="row 2, column 'n': 'much'"):
        like(pd.DataFrame({"n": ["3", "much"]}), model, "people.csv")


def test_outputs_appear_together_or_not_at_all(tmp_path):
    def interrupted():
        with Outputs() as out:
            out.text(tmp_path / "a.txt", "a")
            out.text(out.folder(tmp_path / "new") / "b.txt", "b")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with Outputs() as out:
        out.text(tmp_path / "a.txt", "a")
        out.text(out.folder(tmp_path / "new") / "b.txt", "b", 0o600)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "new"]
    assert (tmp_path / "new" / "b.txt").stat().st_mode & 0o777 == 0o600
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o666 & ~mask
