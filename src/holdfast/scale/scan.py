"""Files that are read by blocks: Parquet by row group, CSV turned into Parquet once."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.arguments import near_name
from holdfast.errors import HoldfastError
from holdfast.scale.spill import Spill, csv_as_parquet

#: file names that are tables
TABLES = (".parquet", ".pq", ".csv")

#: rows worked on at a time within a row group
ROWS = 1 << 15


@dataclass(frozen=True)
class RowGroup:
    """One row group of one file.

    Attributes
    ----------
    file : str
        Where it is read from: for CSV a Parquet file made from it.
    source : str
        The file as it was named, for messages.
    group : int
    first, rows : int
        The number of its first row in the whole table, and how many it has.
    """

    file: str
    source: str
    group: int
    first: int
    rows: int

    def __str__(self) -> str:
        return f"{self.source!r}, row group {self.group}"


@dataclass
class Scan:
    """A table in files, of which only blocks are ever in memory. Made by :func:`scan`.

    Attributes
    ----------
    parts : list of RowGroup
    numbers, texts : list of str
        Columns that are features.
    label : str
    favourable : str or None
    id, subject : str or None
        Columns that name rows, or people.
    """

    parts: list[RowGroup] = field(repr=False)
    numbers: list[str]
    texts: list[str]
    label: str
    favourable: str | None = None
    id: str | None = None
    subject: str | None = None
    spill: Spill | None = field(default=None, repr=False)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        last = self.parts[-1]
        return last.first + last.rows

    @property
    def features(self) -> list[str]:
        """The columns that are features: numbers first."""
        return [*self.numbers, *self.texts]

    @property
    def key(self) -> str | None:
        """The column erasure requests speak of: people where they are known, else rows."""
        return self.subject or self.id

    def __repr__(self) -> str:
        files = len({part.source for part in self.parts})
        return f"<Scan {self.rows:,} rows in {files} files, {len(self.features)} features>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "spill": None}  # whoever made it removes it

    def read(self, part: RowGroup, columns: Sequence[str] | None = None) -> Any:
        """Some columns of a part, as a pyarrow table of numbers (float64) and text."""
        import pyarrow as pa
        from pyarrow import parquet

        wanted = list(columns) if columns is not None else self._columns
        try:
            with parquet.ParquetFile(part.file) as file:
                table = file.read_row_group(part.group, columns=wanted, use_threads=False)
            return table.select(wanted).cast(self._schema(wanted, table.schema), safe=False)
        except (OSError, pa.ArrowException, KeyError) as failure:
            raise HoldfastError(f"{part} cannot be read: {_first_line(failure)}") from None

    @property
    def _columns(self) -> list[str]:
        apart = [name for name in (self.label, self.id, self.subject) if name is not None]
        return list(dict.fromkeys([*self.features, *apart]))

    def _schema(self, wanted: list[str], found: Any) -> Any:
        """Features as float64 or text; label and ids as they are, dictionaries decoded."""
        import pyarrow as pa

        fields = []
        for name in wanted:
            kind = found.field(name).type
            if name in self.numbers or pa.types.is_decimal(kind):
                kind = pa.float64()
            elif name in self.texts or pa.types.is_dictionary(kind) or _kind(kind) == "text":
                kind = pa.string()
            fields.append(pa.field(name, kind))
        return pa.schema(fields)

    def part_of(self, positions: Any) -> Any:
        """The number of the part that each row is in."""
        firsts = np.array([part.first for part in self.parts])
        return np.searchsorted(firsts, positions, side="right") - 1

    def frame(self, part: RowGroup, rows: Any, more: Sequence[str] = ()) -> Any:
        """Some rows of a part (numbered from its first) as a pandas frame of features."""
        import pyarrow as pa

        columns = [*self.features, *(name for name in more if name not in self.features)]
        return self.read(part, columns).take(pa.array(np.asarray(rows))).to_pandas()


def scan(
    paths: Any,
    label: str,
    favourable: Any = None,
    id: str | None = None,
    subject: str | None = None,
    *,
    drop: Sequence[str] = (),
    text: Sequence[str] = (),
    delimiter: str = ",",
    decimal: str = ".",
) -> Scan:
    """Look at files without reading them whole: for tables larger than memory.

    Parameters
    ----------
    paths : path, pattern or folder, or several
        Parquet files (read by row group) or CSV files (by blocks; they are turned into Parquet in
        a temporary folder first, which is removed at the end).
    label : str
        The label column.
    favourable : label, optional
        The good outcome; ``"high"`` or ``"low"`` for numbers.
    id, subject : str, optional
        Columns that name rows, or people who may own several rows. They are no features.
    drop : sequence of str
        Columns that are no features.
    text : sequence of str
        Columns of numbers that are codes.
    delimiter, decimal : str
        Of CSV files.

    Returns
    -------
    Scan
        For :func:`holdfast.fit`.

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd, holdfast as hf
    >>> folder = tempfile.TemporaryDirectory()
    >>> rng = np.random.default_rng(0)
    >>> for month in range(3):
    ...     part = pd.DataFrame(rng.standard_normal((400, 2)), columns=["income", "savings"])
    ...     part["paid"] = part["income"] + rng.standard_normal(400)
    ...     part.to_parquet(f"{folder.name}/2026-{month:02}.parquet")
    >>> loans = hf.scan(f"{folder.name}/*.parquet", label="paid")
    >>> loans
    <Scan 1,200 rows in 3 files, 2 features>
    >>> hf.fit("ridge", loans)
    <ScannedModel Ridge, n=1,200, exact>
    >>> folder.cleanup()
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise HoldfastError(
            "files are read by blocks with pyarrow: pip install 'holdfast[parquet]'"
        ) from None
    files = found_files(paths)
    spill = None
    parts: list[RowGroup] = []
    kinds: dict[str, str] = {}
    first = ""
    codes = {name for name in (id, subject, *text) if name is not None}
    for source in files:
        file = source
        if not is_parquet(source):
            spill = spill or Spill()
            with spill.kept_on_success():
                words = {name for name, kind in kinds.items() if kind == "text"}
                file = csv_as_parquet(source, spill, codes | words, delimiter, decimal)
        found, groups = _looked_at(file, source)
        if not kinds:
            kinds, first = dict(found), str(source)
        _refuse_others(kinds, found, str(source), first, drop)
        start = parts[-1].first + parts[-1].rows if parts else 0
        for group, rows in groups:
            where = str(Path(file).absolute())  # workers may stand elsewhere
            parts.append(RowGroup(where, str(source), group, start, rows))
            start += rows
    apart = {label, id, subject, *drop}
    for name in (label, id, subject, *drop, *text):
        if name is not None and name not in kinds:
            raise HoldfastError(f"{first!r} has no column {name!r}{near_name(name, list(kinds))}")
    for name in (id, subject):
        if name is not None and kinds[name] not in ("text", "number"):
            raise HoldfastError(
                f"{first!r}: the ids in {name!r} are of type {kinds[name]}: text or whole numbers "
                "are wanted"
            )
    if id is not None and id == subject:
        raise HoldfastError(f"{id!r} cannot name rows and people at once: say ⟦id⟧ or ⟦subject⟧")
    for name, kind in kinds.items():
        if name not in apart and kind not in ("number", "text", "empty"):
            raise HoldfastError(
                f"{first!r}: the column {name!r} is of type {kind}, which is no feature: leave it "
                f"out (⟦drop⟧) or turn it into numbers"
            )
    features = [name for name in kinds if name not in apart]
    texts = [name for name in features if kinds[name] == "text" or name in text]
    numbers = [name for name in features if name not in texts]
    if not features:
        raise HoldfastError(f"{first!r} has no column besides label and ids: nothing to fit on")
    good = None if favourable is None else str(favourable)
    return Scan(parts, numbers, texts, label, good, id, subject, spill)


def found_files(paths: Any) -> list[Path]:
    """The files meant by paths, patterns and folders, in the order of their names."""
    if not isinstance(paths, str | Path | list | tuple):
        raise HoldfastError(f"paths must be a path, a pattern or several, got {paths!r}")
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found: list[Path] = []
    for item in given:
        path = Path(item).expanduser()
        if path.is_dir():
            inside = [f for f in sorted(path.rglob("*")) if is_table(f) and f.is_file()]
            if not inside:
                raise HoldfastError(f"the folder {str(item)!r} has no .parquet or .csv file")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            matches = [Path(f) for f in sorted(glob.glob(str(path), recursive=True))]
            matches = [f for f in matches if f.is_file()]
            if not matches:
                raise HoldfastError(f"there is no file {str(item)!r}")
            found += matches
    if not found:
        raise HoldfastError("no files were named")
    twice = len(found) - len({f.resolve() for f in found})
    if twice:
        raise HoldfastError("a file is named more than once")
    wrong = [f for f in found if not is_table(f)]
    if wrong:
        raise HoldfastError(f"{str(wrong[0])!r} is neither .parquet nor .csv")
    return found


def is_table(file: Path) -> bool:
    """Whether a file can be read by blocks, by its name."""
    return file.suffix.lower() in TABLES and not file.name.startswith((".", "_"))


def is_parquet(file: Path) -> bool:
    """Whether a file is Parquet, by its name."""
    return file.suffix.lower() in TABLES[:2]


def _looked_at(file: Path, source: Path) -> tuple[dict[str, str], list[tuple[int, int]]]:
    """What kind every column is, and the row groups with rows."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file) as opened:
            schema, described = opened.schema_arrow, opened.metadata
            sizes = [described.row_group(g).num_rows for g in range(described.num_row_groups)]
    except (OSError, pa.ArrowException) as failure:
        raise HoldfastError(f"{str(source)!r} cannot be read: {_first_line(failure)}") from None
    twice = [name for name in schema.names if schema.names.count(name) > 1]
    if twice:
        raise HoldfastError(f"{str(source)!r} has the column {twice[0]!r} twice")
    if not sum(sizes):
        raise HoldfastError(f"{str(source)!r} has no rows: remove it, or leave it out")
    groups = [(g, rows) for g, rows in enumerate(sizes) if rows]
    return {name: _kind(schema.field(name).type) for name in schema.names}, groups


def _kind(kind: Any) -> str:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_null(kind):
        return "empty"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    return str(kind)


def _refuse_others(
    kinds: dict[str, str], found: dict[str, str], source: str, first: str, drop: Sequence[str]
) -> None:
    """Refuse a file whose columns are not those of the first; an empty column takes any kind."""
    missing = [name for name in kinds if name not in found]
    extra = [name for name in found if name not in kinds]
    if missing or extra:
        name, way = (missing[0], "lacks") if missing else (extra[0], "also has")
        raise HoldfastError(
            f"{source!r} {way} the column {name!r}: its columns are not those of {first!r}"
        )
    for name, kind in found.items():
        if kinds[name] == "empty":
            kinds[name] = kind
        elif kind not in ("empty", kinds[name]) and name not in drop:
            raise HoldfastError(
                f"{source!r}: the column {name!r} is {kind}, and {kinds[name]} in {first!r}: write "
                "it in one way"
            )


def _first_line(failure: BaseException) -> str:
    words = str(failure).strip().splitlines()
    return words[0][:160] if words else type(failure).__name__
