"""Filled books of the version there is now, as SQL: ``python old_books.py > books-VERSION.sql``.

Made once for every version, and kept: migrations are tried on all of them.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from pathlib import Path

import holdfast as hf

sys.path.insert(0, str(Path(__file__).parents[1]))
from counter import Desk, files_of_a_lender, settings_for


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    files_of_a_lender(folder, n=40)
    books = hf.Ledger(folder / "books.db", by="desk 1")
    books.create(certify=2)
    books.import_case(settings_for(folder))
    desk = Desk(folder, folder / "books.db")
    one, other = desk.breaker(), desk.holder(inside=True)
    numbers = [request.id for request in books.receive([one, other])]
    books.honour(numbers)
    books.receive([desk.holder(inside=False)])
    with sqlite3.connect(folder / "books.db") as connection:
        for line in connection.iterdump():
            sys.stdout.write(line.replace(str(folder), "/somewhere") + "\n")


if __name__ == "__main__":
    main()
