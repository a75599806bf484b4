"""Tables as they come: packed, in other encodings, of other kinds, with money and dates."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast.cases.settings import made
from holdfast.cells import amounts, are_dates
from holdfast.cli import run
from holdfast.tables import like, read_table, typed


def loans(n=240):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "savings": np.round(np.exp(rng.normal(7, 1, n)), 2),
            "job": rng.choice(["müde", "größe"], n),
            "income": rng.integers(1000, 9000, n),
        }
    )
    z = np.log(table["savings"]) - 7 + (table["income"] - 5000) / 2000
    table["repaid"] = np.where(z + rng.logistic(size=n) > 0, "good", "bad")
    return table


def test_the_same_table_in_every_form(tmp_path):
    table = loans()
    text = table.to_csv(index=False)
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    (tmp_path / "b.csv").write_bytes(text.encode("cp1252"))
    (tmp_path / "c.csv").write_bytes(text.encode("utf-16"))
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(text.encode("utf-8")))
    table.to_excel(tmp_path / "e.xlsx", index=False)
    table.to_feather(tmp_path / "f.feather")
    table.to_parquet(tmp_path / "g.parquet")
    said = {"b.csv": "cp1252", "c.csv": "utf-16"}
    for file in sorted(tmp_path.iterdir()):
        notes: list[str] = []
        found = read_table(file, notes=notes)
        pd.testing.assert_frame_equal(
            found.astype({"job": object, "repaid": object}),
            table.astype({"job": object, "repaid": object}),
        )
        assert any(said.get(file.name, "\0") in note for note in notes) == (file.name in said)


def test_packed_files_are_looked_at_while_they_are_unpacked(tmp_path, monkeypatch):
    bomb = tmp_path / "bomb.csv.gz"
    bomb.write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * 5_000_000))
    monkeypatch.setenv("HOLDFAST_MAX_UNPACKED", "5MB")
    with pytest.raises(hf.HoldfastError, match="would unpack to"):
        read_table(bomb)
    for name, content in (("x.csv.gz", b"no gzip"), ("x.xlsx", b"PK no"), ("x.feather", b"ARR")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(hf.HoldfastError, match="file that can be read"):
            read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["$1,200", "$950.50", "-"], [1200, 950.5, np.nan]),
        (["1.200,50 €", "95,5 €"], [1200.5, 95.5]),
        (["12,5", "3,75", "4"], [12.5, 3.75, 4]),
        (["1,234", "5,678,901"], [1234, 5678901]),
        (["0,697", "1,234"], [0.697, 1.234]),
        (["EUR 1 200", "EUR 30"], [1200, 30]),
        (["(1,200.00)", "15-"], [-1200, -15]),
        (["45%", "3.5 %"], [45, 3.5]),
        (["CHF 1'000", "CHF 5"], [1000, 5]),
    ],
)
def test_amounts_as_people_write_them(cells, values):
    notes: list[str] = []
    found = typed(pd.DataFrame({"x": cells}), "t", notes=notes)
    np.testing.assert_array_equal(found["x"], np.array(values, dtype=float))
    assert "are read as numbers" in notes[0]
    again = like(pd.DataFrame({"x": cells}), found, "people")
    np.testing.assert_array_equal(again["x"], found["x"])


def test_what_is_no_amount_stays_what_it_is():
    assert amounts(pd.Series(["1,2,3", "4"])) is None
    assert amounts(pd.Series(["12 main street"])) is None
    words = typed(pd.DataFrame({"x": ["A-1", "B-2", "C-3"]}), "t")
    assert words["x"].tolist() == ["A-1", "B-2", "C-3"]
    assert are_dates(pd.Series(["31.12.2024", "01.01.2025"]))
    assert not are_dates(pd.Series(["12.5", "13.5"]))


def test_dates_are_left_out_and_yes_is_read(tmp_path):
    table = pd.DataFrame(
        {"opened": ["2024-01-31", "2025-02-28"], "day": pd.to_datetime(["2024-01-31"] * 2)}
    )
    notes: list[str] = []
    found = typed(table.assign(x=[1, 2]), "t", notes=notes)
    assert list(found.columns) == ["x"]
    assert sum("holds dates and is left out" in note for note in notes) == 2
    owns = like(pd.DataFrame({"o": ["Y", "n"]}), pd.DataFrame({"o": [True, False]}), "p")
    assert owns["o"].tolist() == [True, False]


def test_a_label_spelt_twice_is_named(tmp_path, capsys):
    table = loans()
    table.loc[:2, "repaid"] = "Bad "
    table.to_csv(tmp_path / "t.csv", index=False)
    base = ["audit", "--train", str(tmp_path / "t.csv"), "--label", "repaid", "--model", "logistic"]
    assert run([*base, "--favourable", "good"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "'Bad' (3 times), which seems to be another spelling of 'bad'" in said


def test_ids_are_recognised(tmp_path, capsys):
    table = loans().assign(nr=np.arange(240) + 1)
    table.to_csv(tmp_path / "t.csv", index=False)
    base = ["--train", str(tmp_path / "t.csv"), "--label", "repaid", "--model", "logistic"]
    base += ["--favourable", "good"]
    assert run(["recourse", *base]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Column 'nr' has another whole number in every row" in said
    assert "features" not in said or "nr," not in said
    twice = pd.concat([table, table.head(3)])
    twice.to_csv(tmp_path / "t.csv", index=False)
    assert run(["recourse", *base, "--id", "nr"]) == 2
    assert "name the column with --subject instead" in " ".join(capsys.readouterr().err.split())


def test_a_settings_file_is_no_table_and_a_table_no_settings_file(tmp_path, capsys):
    loans().to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.toml").write_text('label = "repaid"\nmodel_file = "m.skops"\ntrain = "t.csv"\n')
    assert run(["audit", str(tmp_path / "t.csv")]) == 2
    assert "name the table with --train" in " ".join(capsys.readouterr().err.split())
    base = ["audit", "--label", "repaid", "--model", "ridge", "--favourable", "good"]
    assert run([*base, "--train", str(tmp_path / "s.toml")]) == 2
    assert "is a settings file" in " ".join(capsys.readouterr().err.split())
    settings = made({"model": "ridge"}, tmp_path / "s.toml")  # an option wins over the other word
    assert settings.model == "ridge"
    assert settings.model_file is None


def test_rules_are_written_for_editing(tmp_path, capsys):
    table = loans().assign(late_payments=1, months_since_default=np.resize([1.5, 2, 3], 240))
    table.to_csv(tmp_path / "t.csv", index=False)
    assert run(["rules", str(tmp_path / "t.csv"), "--label", "repaid"]) == 0
    written = capsys.readouterr().out
    (tmp_path / "rules.toml").write_text(written)
    assert "# time passes one way" in written
    assert "repaid" not in written.replace("--label repaid", "")
    rules = hf.Actionability.from_toml(tmp_path / "rules.toml")
    assert rules.features["late_payments"].direction == "frozen"
    base = ["--train", str(tmp_path / "t.csv"), "--label", "repaid", "--favourable", "good"]
    base += ["--model", "logistic", "--actionability", str(tmp_path / "rules.toml")]
    labels = tmp_path / "labels.toml"
    labels.write_text('[features.savings]\nlabel = "your savings"\nunit = "€"\n')
    issued = tmp_path / "issued.csv"
    more = ["--labels", str(labels), "--ways", "3", "--max-changed", "2", "--out", str(issued)]
    assert run(["recourse", *base, *more]) == 0
    out = capsys.readouterr().out
    assert "(cheapest): " in out
    assert " €" in out
    assert not pd.read_csv(issued)["savings"].astype(str).str.contains(r"\.\d{6}").any()
    assert run(["rules", str(tmp_path / "t.csv"), "--label", "repiad"]) == 2
    assert "did you mean 'repaid'" in capsys.readouterr().err
