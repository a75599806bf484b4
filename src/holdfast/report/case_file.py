"""The case file: who is critical, who witnesses, what each promise is. Personal data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.files import PRIVATE, Outputs
from holdfast.report import rendered
from holdfast.tables import safe_csv

NOTICE = (
    "Personal data. For those who handle recourse and erasure, and nobody else. Never a ground to "
    "delay or refuse a request for erasure. Delete this file once the requests it was made for are "
    "dealt with, and whenever somebody named in it is erased."
)

#: names of the files of a case folder
PRIVATE_TABLES = (
    *("READ-ME-FIRST.txt", "critical.csv", "recourses.csv", "files.csv", "broken.csv"),
    "left_out.csv",
)

CRITICAL = (
    "critical",
    "Critical erasures",
    "Whom the strongest attack found erases: from how many erasures on, in how many of its "
    "budgets, and what share of the recourses their erasure alone breaks (predicted).",
)
RECOURSES = (
    "recourses",
    "Recourses",
    "“broken at”: the fewest erasures of that attack after which a refit breaks the recourse. "
    "“certified”: no erasure of that many or fewer can. “attacked”: a set of that size does, the "
    "witness.",
)
LEFT_OUT = (
    "left_out",
    "Promises that were not audited",
    "Not valid under the model as it is, or for nobody among the people.",
)
FILES = (
    "files",
    "Made from",
    "Whoever has the rest of the table could try guesses at a row against its hash: it is here and "
    "not in the report.",
)


def write_case_file(audit: Any, path: Any, out: Outputs) -> None:
    """An HTML page, or a folder of CSV files, that only its owner can read."""
    critical, recourses, files = audit.critical, _flat(audit.recourses), _files(audit.about)
    left_out = pd.DataFrame(audit.about.left_out, columns=["id", "why"])
    if Path(path).suffix.lower() in (".html", ".htm"):
        parts = [(CRITICAL, critical), (RECOURSES, recourses)]
        parts += [(LEFT_OUT, left_out)] if len(left_out) else []
        parts.append((FILES, files))
        out.text(path, _page(parts), PRIVATE)
        return
    tables = {"critical": critical, "recourses": recourses, "files": files}
    if len(left_out):
        tables["left_out"] = left_out
    write_private_tables(tables, path, out)


def _files(about: Any) -> pd.DataFrame:
    """What the audit was made from."""
    known = [
        ("reference of the report", about.reference),
        ("training table, SHA-256", about.table_sha256 or "not from a file"),
        ("model, SHA-256", about.model_sha256 or "fitted here"),
    ]
    return pd.DataFrame(known, columns=["what", "is"])


def impact_page(headline: str, broken: pd.DataFrame, everybody: pd.DataFrame) -> str:
    """The case file of some erasure requests."""
    told = ("broken", "Promises that break", headline)
    rest = (
        "recourses",
        "All promises",
        "Scores before, predicted, solved again with the preprocessing kept, and refitted.",
    )
    return _page([(told, broken), (rest, everybody)])


def _page(tables: list[tuple[tuple[str, str, str], pd.DataFrame]]) -> str:
    parts = [{"name": n, "title": t, "text": x, **_table(frame)} for (n, t, x), frame in tables]
    return rendered("cases.html", notice=NOTICE, parts=parts)


def write_private_tables(tables: dict[str, pd.DataFrame], folder: Any, out: Outputs) -> None:
    """CSV files and the notice in a folder, readable by their owner only."""
    place = out.folder(folder, 0o700)
    out.text(Path(place, "READ-ME-FIRST.txt"), NOTICE + "\n", PRIVATE)
    for name, table in tables.items():
        out.text(Path(place, f"{name}.csv"), safe_csv(table), PRIVATE)


def _flat(recourses: pd.DataFrame) -> pd.DataFrame:
    """Ids in a column of their own, witnesses as one text."""
    table = recourses.copy()
    if "witness" in table:
        table["witness"] = [" ".join(map(str, names)) for names in table["witness"]]
    table.insert(0, "id", [str(name) for name in table.index])
    return table.reset_index(drop=True)


def _table(frame: pd.DataFrame) -> dict[str, Any]:
    """Names, and for every cell what is shown and what it is sorted by."""
    rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    number = [pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]
    names = [str(name).replace("_", " ") for name in frame.columns]
    return {"names": names, "rows": rows, "number": number}


def _cell(value: Any) -> dict[str, Any]:
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return {"shown": "", "number": True, "key": ""}
    if isinstance(value, str | tuple | list):
        return {"shown": str(value), "number": False, "key": str(value)}
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    return {"shown": shown, "number": True, "key": str(value)}
