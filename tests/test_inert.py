"""Names that would do something where they are shown do nothing."""

import unicodedata

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inert import for_spreadsheet, for_terminal, from_spreadsheet, one_line
from holdfast.tables import MARK, read_table, to_be_read_back

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egpj\u2066x\u2028\x00\r"


def test_terminals_are_sent_nothing_active():
    said = for_terminal(HOSTILE)
    assert said == (r"\x1b[2J\x1b]0;owned\x07\x9b31m" + r"\u202egpj\u2066x\u2028\x00\x0d")
    assert for_terminal("Žižek 東京 👩‍🔬\tzwei\nZeilen") == "Žižek 東京 👩‍🔬\tzwei\nZeilen"
    assert one_line("a\nb\tc") == r"a\nb\tc"


@given(st.text())
def test_no_control_character_is_left(text):
    for character in for_terminal(text):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs", "Zl")
        assert unicodedata.bidirectional(character) not in ("RLO", "LRO", "RLE", "LRE", "RLI")


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1+1", "'=1", "''", "'"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_spreadsheets_run_nothing(cell):
    assert for_spreadsheet(cell) == "'" + cell
    assert from_spreadsheet(for_spreadsheet(cell)) == cell


@given(st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.none()))
def test_what_is_read_back_is_what_was_written(cell):
    assert from_spreadsheet(for_spreadsheet(cell)) == cell
    shown = for_spreadsheet(cell)
    if isinstance(shown, str) and shown:
        assert shown.lstrip()[:1] not in "=+-@＝＋－＠" or not shown.lstrip()


def test_a_table_of_ours_is_read_back_as_it_was(tmp_path):
    table = pd.DataFrame(
        {
            "customer": ["=7", "'=7", "007", "C,5", 'say "x"', "line\nend"],
            "=job": ["+49", "full", "-", "'tis", "@home", "plain"],
            "income": [1.5, -2.0, 3.25, 0.0, 1e-9, 12.0],
        }
    )
    place = tmp_path / "issued.csv"
    place.write_text(to_be_read_back(table, "recourses"))
    text = place.read_text()
    assert MARK in text.splitlines()[0]
    for line in text.splitlines():
        assert not line.startswith(("=", "+", "@"))
    read = read_table(place, ["customer"])
    pd.testing.assert_frame_equal(read, table, check_dtype=False)
    foreign = tmp_path / "foreign.csv"
    foreign.write_text("customer,job\n'=7,'tis\n")
    assert read_table(foreign)["customer"].tolist() == ["'=7"]  # not ours: as it is
