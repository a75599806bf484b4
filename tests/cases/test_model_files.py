"""A model file restores a model and does nothing else; compressed files are looked at first."""

import importlib
import io
import json
import pkgutil
import subprocess
import warnings
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVR
from skops import io as skops

import holdfast as hf
from holdfast import archives
from holdfast.cases import trust
from holdfast.cases.modelfile import loaded_model
from holdfast.cases.remarks import Remarks
from holdfast.cases.trust import Named, is_safe, named_in
from holdfast.cli import run
from holdfast.tables import read_table
from lender import loans

FEATURES = ["age", "savings"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loans()[[*FEATURES, "merit"]].to_csv("plain.csv", index=False)
    return tmp_path


def edited(model, path, change):
    """A .skops file with its schema changed by ``change(text)``."""
    with (
        zipfile.ZipFile(io.BytesIO(skops.dumps(model))) as source,
        zipfile.ZipFile(path, "w") as to,
    ):
        for name in source.namelist():
            content = source.read(name)
            if name == "schema.json":
                content = change(content.decode()).encode()
            to.writestr(name, content)


def nodes(state):
    """Every node of a schema, as the dict it is."""
    if isinstance(state, dict):
        if "__loader__" in state:
            yield state
        for part in state.values():
            yield from nodes(part)
    elif isinstance(state, list):
        for part in state:
            yield from nodes(part)


def renamed(old, **new):
    """A change of schema that rewrites the nodes of one name."""

    def change(text):
        schema = json.loads(text)
        for node in nodes(schema):
            full = f"{node['__module__']}.{node['__class__']}"
            if full == old or (old == "numpy.log1p" and node["__class__"] == "log1p"):
                node.update(new)
        return json.dumps(schema)

    return change


def fitted(first):
    table = loans()
    model = make_pipeline(FunctionTransformer(np.log1p), Ridge()).fit(
        table[FEATURES], table["merit"]
    )
    model.steps[0][1].set_params(func=first)
    return model


def load(path, *names):
    return loaded_model(Path(path), False, names, Remarks())


def small():
    rng = np.random.default_rng(0)
    X = rng.random((60, 3))
    return X, X[:, 0] + rng.random(60) / 9


COMMANDS = {
    "audit": [],
    "impact": ["--erase", "3", "--id", "age"],
    "recourse": ["--out", "issued.csv"],
    "harden": ["--survive", "1"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hostile_file_runs_nothing(folder, capsys, command):
    """The attack that worked: a function of the shell, reached through a module of scikit-learn."""
    hostile = fitted(subprocess.check_output)
    hostile.steps[0][1].kw_args = {"args": ["/bin/sh", "-c", "touch pwned"]}
    edited(
        hostile,
        "m.skops",
        renamed("subprocess.check_output", __module__="sklearn.utils._testing"),
    )
    base = ["--train", "plain.csv", "--label", "merit", "--model-file", "m.skops"]
    assert run([command, *base, *COMMANDS[command]]) == 2
    said = capsys.readouterr()
    assert "sklearn.utils._testing.check_output" in said.err
    assert "not known to be safe" in said.err
    assert "Traceback" not in said.err
    assert sorted(p.name for p in folder.iterdir()) == ["m.skops", "plain.csv"]


HOSTILE = {
    "a function of numpy that reads files": ("numpy.log1p", {"__class__": "fromfile"}),
    "a function of numpy that loads files": ("numpy.log1p", {"__class__": "load"}),
    "a re-exported module": (
        "numpy.log1p",
        {"__module__": "sklearn.utils.fixes", "__class__": "sys"},
    ),
    "eval": ("numpy.log1p", {"__module__": "builtins", "__class__": "eval"}),
    "a class as a function": (
        "numpy.log1p",
        {
            "__loader__": "TypeNode",
            "__module__": "sklearn.linear_model._ridge",
            "__class__": "Ridge",
        },
    ),
    "a class as a function, said to be one": (
        "numpy.log1p",
        {"__module__": "sklearn.linear_model._ridge", "__class__": "Ridge"},
    ),
    "a function of scikit-learn that is not listed": (
        "numpy.log1p",
        {"__module__": "sklearn.datasets", "__class__": "load_files"},
    ),
    "an object made by a function": (
        "sklearn.linear_model._ridge.Ridge",
        {"__module__": "sklearn.utils._testing", "__class__": "check_output"},
    ),
    "a dictionary made by a function": (
        "builtins.dict",
        {"__module__": "sklearn.utils._testing", "__class__": "check_output"},
    ),
    "a list that is no list": (
        "builtins.list",
        {"__module__": "sklearn.linear_model._ridge", "__class__": "Ridge"},
    ),
    "an array that is no array": (
        "numpy.ndarray",
        {"__module__": "numpy", "__class__": "memmap"},
    ),
    "a constructor": (
        "sklearn.linear_model._ridge.Ridge",
        {"__loader__": "ConstructorFromReduceNode"},
    ),
    "a method": (
        "sklearn.linear_model._ridge.Ridge",
        {"__loader__": "MethodNode", "content": {"func": "fit", "obj": {}}},
    ),
    "a loader nobody knows": ("numpy.log1p", {"__loader__": "EvalNode"}),
    "a module that is only for tests": (
        "numpy.log1p",
        {"__module__": "sklearn.conftest", "__class__": "pytest"},
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_names_used_as_something_else_are_refused(folder, case):
    old, new = HOSTILE[case]
    edited(fitted(np.log1p), "m.skops", renamed(old, **new))
    with pytest.raises(hf.HoldfastError, match="not known to be safe"):
        load("m.skops")


def test_a_name_said_a_second_time_in_the_old_format_is_refused(folder):
    def change(text):
        schema = json.loads(
            renamed("numpy.log1p", content={"module_path": "os", "function": "system"})(text)
        )
        return json.dumps({**schema, "protocol": 0})

    edited(fitted(np.log1p), "m.skops", change)
    with pytest.raises(hf.HoldfastError, match="too old"):
        load("m.skops")


def test_partial_applications_are_of_listed_functions(folder):
    skops.dump(fitted(partial(np.fromfile, sep=",")), "m.skops")
    with pytest.raises(hf.HoldfastError, match=r"numpy\.fromfile"):
        load("m.skops")
    skops.dump(fitted(partial(np.add, 1)), "m.skops")
    load("m.skops")


def grid(**parameters):
    table = loans()
    search = GridSearchCV(fitted(np.log1p), parameters, cv=2, error_score=0.0)
    return search.fit(table[FEATURES], table["merit"])


def reaching_out():
    """Models that read files, load pickles or run what they bring, each in its own way."""
    X, y = small()
    cached = fitted(np.log1p).set_params(memory="cache")
    grid_of_caches = grid(ridge__alpha=[1.0])
    grid_of_caches.param_grid = {"memory": ["cache"]}
    reader = make_pipeline(CountVectorizer(), Ridge()).fit(["one two", "two"], [0.0, 1.0])
    reader.steps[0][1].input = "filename"
    shadowed = Ridge().fit(X, y)
    shadowed.predict = np.exp
    called = Ridge().fit(X, y)
    called._skl_callbacks = [np.exp]
    return {
        "memory": cached,
        "memory, in a grid": grid_of_caches,
        "input": reader,
        "replaces 'predict'": shadowed,
        "callbacks": called,
    }


REACHES = ["memory", "memory, in a grid", "input", "replaces 'predict'", "callbacks"]


@pytest.mark.parametrize("case", REACHES)
def test_models_that_reach_out_of_themselves_are_refused(folder, case):
    skops.dump(reaching_out()[case], "m.skops")
    with pytest.raises(hf.HoldfastError, match=case.split(",")[0]):
        load("m.skops")


def test_a_cache_folder_is_found_however_it_is_written(folder):
    def change(text):
        schema = json.loads(text)
        for node in nodes(schema):
            if node.get("content") == '"cache"':
                node["content"] = ' "cache"'
        return json.dumps(schema)

    edited(fitted(np.log1p).set_params(memory="cache"), "m.skops", change)
    with pytest.raises(hf.HoldfastError, match="memory"):
        load("m.skops")


def test_a_node_never_stands_for_another(folder):
    """skops resolves a bare identity to a node that was judged in another role."""

    def bare(text):
        schema = json.loads(text)
        scalar = next(n for n in nodes(schema) if n["__loader__"] == "TypeNode")
        for node in nodes(schema):
            for key, part in node.items():
                if isinstance(part, dict) and part.get("__class__") == "log1p":
                    node[key] = {"__id__": scalar["__id__"]}
                elif key == "content" and isinstance(part, dict) and "func" in part:
                    part["func"] = {"__id__": scalar["__id__"]}
        return json.dumps(schema)

    edited(fitted(np.log1p), "m.skops", bare)
    with pytest.raises(hf.HoldfastError, match=r"skops\.io\.dump"):
        load("m.skops")


def test_callbacks_that_listen_are_refused(folder):
    """They connect to an address out of the file, and unpickle what comes back."""
    names = {"__module__": "sklearn.callback._scoring_monitor", "__class__": "ScoringMonitor"}
    edited(fitted(np.log1p), "m.skops", renamed("sklearn.linear_model._ridge.Ridge", **names))
    with pytest.raises(hf.HoldfastError, match="ScoringMonitor"):
        load("m.skops")


ORDINARY = {
    "a ufunc": make_pipeline(FunctionTransformer(np.log1p), LinearRegression()),
    "forest": RandomForestRegressor(3, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=3, random_state=0),
    "histogram boosting": HistGradientBoostingRegressor(max_iter=3, random_state=0),
    "isolation forest": IsolationForest(n_estimators=5, random_state=0),
    "neighbours": KNeighborsRegressor(algorithm="kd_tree"),
    "neighbours in balls": KNeighborsRegressor(algorithm="ball_tree"),
    "splines": make_pipeline(SplineTransformer(), Ridge()),
    "one-hot": make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()),
    "a loss": PoissonRegressor(),
    "selection": make_pipeline(SelectKBest(f_regression, k=1), Ridge()),
    "grid search": GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2, scoring="r2"),
    "ntk": hf.NTKRegressor(),
    "ridge": Ridge(),
    "support vectors": make_pipeline(StandardScaler(), SVR()),
    "columns chosen by type": make_pipeline(
        make_column_transformer((StandardScaler(), make_column_selector(dtype_include=np.number))),
        Ridge(),
    ),
    "categories": HistGradientBoostingRegressor(max_iter=3, categorical_features=[0]),
    "wide": hf.WideReLURegressor(n_units=8, max_iter=20),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_models_load_unasked(folder, case):
    X, y = small()
    X = pd.DataFrame(np.round(X, 1), columns=list("abc"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that is stopped early says so
        model = ORDINARY[case].fit(X, y)
    skops.dump(model, "m.skops", compression=zipfile.ZIP_DEFLATED)
    again = load("m.skops")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)


def test_classifiers_load_unasked(folder):
    X, y = small()
    for model in (CalibratedClassifierCV(LogisticRegression(), cv=2), hf.LSSVMClassifier()):
        skops.dump(model.fit(X, y > np.median(y)), "m.skops")
        np.testing.assert_array_equal(load("m.skops").predict(X), model.predict(X))


def modules_of(package):
    """Every module below a package that is not for tests; those that do not import are none."""
    home = importlib.import_module(package)
    yield home
    for found in pkgutil.walk_packages(home.__path__, f"{package}.", onerror=lambda _: None):
        parts = found.name.split(".")
        if trust.NEVER_IMPORTED & set(parts) or parts[-1].startswith("__"):
            continue
        try:
            yield importlib.import_module(found.name)
        except ImportError:
            continue


LOADERS = [*trust.CONTAINERS, *trust.VALUES, "TypeNode", "FunctionNode", "ObjectNode", "TreeNode"]
LOADERS += ["LossNode", "MethodNode", "PartialNode", "OperatorFuncNode", "BytearrayNode"]
LOADERS += ["ConstructorFromReduceNode", "CachedNode", "QuantileForestNode"]


@pytest.mark.parametrize("package", ["sklearn", "holdfast", "numpy", "scipy.interpolate"])
def test_nothing_reachable_from_a_trusted_package_leads_out_of_it(package):
    """Every attribute of every module, in every role: what is accepted is a class of ours."""
    listed = {
        id(getattr(importlib.import_module(module), name))
        for module, names in trust.FUNCTIONS.items()
        for name in names
    }
    seen = accepted = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in modules_of(package):
            for name in dir(module):
                made = getattr(module, name, None)
                for loader in LOADERS:
                    if loader == "JsonNode":  # values in JSON, whatever the node is called
                        continue
                    seen += 1
                    if not is_safe(Named(loader, module.__name__, name, "")):
                        continue
                    accepted += 1
                    where = (loader, module.__name__, name, made)
                    if loader == "FunctionNode":
                        assert isinstance(made, np.ufunc) or id(made) in listed, where
                        continue
                    assert isinstance(made, type), where
                    assert loader != "TypeNode", where  # no class where a function may stand
                    own = made.__module__
                    homes = ("sklearn", "holdfast", "scipy", "numpy", "builtins", "collections")
                    assert own.split(".")[0] in homes, where
                    if loader == "ObjectNode":
                        full = f"{own}.{made.__name__}"
                        known = full in trust.HELPERS | trust.COMPILED or own in trust.PARTS
                        assert known or issubclass(made, sklearn.base.BaseEstimator), where
                        assert not trust.NEVER_IMPORTED & set(own.split(".")), where
    assert seen > 1_000
    assert accepted > 10 or package == "scipy.interpolate"


def test_every_name_of_a_file_is_seen():
    """Also those that stand where loading would not look."""
    node = {"__loader__": "FunctionNode", "__module__": "os", "__class__": "system"}
    schema = {"content": [{"deep": {"__reduce__": {"args": node}}}], "unused": {"x": [node]}}
    assert [n.full for n in named_in(schema)] == ["os.system"] * 2


def test_keys_are_made_by_types_of_scalars_only():
    key = {"module": "numpy", "name": "log1p", "key": "key_types"}
    assert not is_safe(Named("FunctionNode", **key))
    assert is_safe(Named("TypeNode", "builtins", "str", "key_types"))
    assert not is_safe(Named("TypeNode", "builtins", "str", "func"))
    assert not is_safe(Named("TypeNode", "sklearn.linear_model", "Ridge", "key_types"))


def test_trust_says_what_it_means(folder):
    skops.dump(fitted(np.fromfile), "m.skops")
    with pytest.raises(hf.HoldfastError, match="trust NAME"):
        load("m.skops")
    told = Remarks()
    loaded_model(Path("m.skops"), False, ["numpy.fromfile"], told)
    assert [note.text for note in told.notes] == [
        "Warning: numpy.fromfile in m.skops runs its own code: it is trusted by name."
    ]


def test_a_settings_file_cannot_allow_code(folder, capsys):
    for line in ("allow_pickle = true", 'trust = ["os.system"]'):
        Path("a.toml").write_text(f'train = "plain.csv"\nlabel = "merit"\n{line}\n')
        assert run(["audit", "a.toml"]) == 2
        assert "on the command line" in capsys.readouterr().err


def spoilt(model, spoil):
    """A copy of a model after its arrays of positions were changed."""
    data = skops.dumps(model)
    copy = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    spoil(copy)
    return copy


def _circle(model):
    tree = model.estimators_[0].tree_
    state = tree.__getstate__()
    state["nodes"]["left_child"][0] = 0
    tree.__setstate__(state)


def _outside(model):
    tree = model.estimators_[0].tree_
    state = tree.__getstate__()
    state["nodes"]["feature"][0] = 10**6
    tree.__setstate__(state)


def _histogram(model):
    model._predictors[0][0].nodes["right"][0] = 2**30


def _index(model):
    state = list(model._tree.__getstate__())
    state[1] = np.full_like(np.asarray(state[1]), 10**9)
    model._tree.__setstate__(tuple(state))


def _columns(model):
    model.estimators_ = np.repeat(model.estimators_, 50, axis=1)


def _support(model):
    model[-1]._n_support = np.array([-(2**28), 2**28], dtype=np.int32)


def _degree(model):
    model.steps[0][1].bsplines_[0].k = 5_000_000


def _sparse(model):
    model.coef_ = sparse.csr_matrix(model.coef_)
    model.coef_.indices[:] = 2**30


def _twister(model):
    model.random_state = np.random.RandomState(0)
    state = model.random_state.get_state(legacy=False)
    state["state"]["pos"] = 2**31 - 10
    model.random_state.set_state(state)


@pytest.mark.parametrize(
    ("case", "spoil"),
    [
        ("forest", _circle),
        ("forest", _outside),
        ("forest", _twister),
        ("boosting", _columns),
        ("histogram boosting", _histogram),
        ("neighbours", _index),
        ("support vectors", _support),
        ("splines", _degree),
        ("ridge", _sparse),
    ],
)
def test_trees_that_point_outside_themselves_are_refused(folder, case, spoil):
    X, y = small()
    skops.dump(spoilt(ORDINARY[case].fit(X, y), spoil), "m.skops")
    with pytest.raises(hf.HoldfastError, match="points outside itself"):
        load("m.skops")


def test_archives_are_checked_before_they_are_unpacked(folder, monkeypatch):
    X, y = small()
    content = skops.dumps(Ridge().fit(X, y))

    def written(**members):
        with zipfile.ZipFile("m.skops", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, part in members.items():
                archive.writestr(name, part)

    schema = zipfile.ZipFile(io.BytesIO(content)).read("schema.json")
    written(**{"schema.json": schema, "../../etc/cron.d/x": b"x"})
    with pytest.raises(hf.HoldfastError, match="leaves its folder"):
        load("m.skops")
    written(**{"schema.json": schema, "big.npy": bytes(10**6)})
    monkeypatch.setattr(archives, "MOST_BYTES", 10**5)
    with pytest.raises(hf.HoldfastError, match=r"KB and would unpack to 1\.0 MB.*HOLDFAST_MAX_UNP"):
        load("m.skops")
    monkeypatch.setattr(archives, "MOST_BYTES", 10**9)
    monkeypatch.setattr(archives, "LARGE", 10**5)
    with pytest.raises(hf.HoldfastError, match="more than 200 times its own size"):
        load("m.skops")
    monkeypatch.setenv("HOLDFAST_MAX_UNPACKED", "2MB")
    with pytest.raises(hf.HoldfastError, match=r"skops\.io\.dump"):  # what it names is not there
        load("m.skops")
    monkeypatch.setenv("HOLDFAST_MAX_UNPACKED", "much")
    with pytest.raises(hf.HoldfastError, match="a size like 8GB"):
        load("m.skops")
    monkeypatch.delenv("HOLDFAST_MAX_UNPACKED")
    monkeypatch.setattr(archives, "MOST_MEMBERS", 1)
    with pytest.raises(hf.HoldfastError, match="2 members"):
        load("m.skops")


def test_what_arrays_claim_is_checked(folder, monkeypatch):
    """A header that promises more than there is; one array named a thousand times; a lying size."""
    X, y = small()
    data = skops.dumps(Ridge().fit(X, y))
    source = zipfile.ZipFile(io.BytesIO(data))
    schema = json.loads(source.read("schema.json"))
    name = next(n["file"] for n in nodes(schema) if n["__loader__"] == "NdArrayNode")
    claims = io.BytesIO()
    np.save(claims, np.zeros(3))
    claim = claims.getvalue().replace(b"(3,), }     ", b"(3000000,), }", 1)

    def written(schema, content, method=zipfile.ZIP_STORED):
        with zipfile.ZipFile("m.skops", "w", method) as archive:
            archive.writestr("schema.json", json.dumps(schema))
            for each in source.namelist():
                if each != "schema.json":
                    archive.writestr(each, content if each == name else source.read(each))

    written(schema, claim)
    with pytest.raises(hf.HoldfastError, match="not the array its header describes"):
        load("m.skops")
    node = next(n for n in nodes(schema) if n.get("file") == name)
    large = io.BytesIO()
    np.save(large, np.zeros(10_000))
    monkeypatch.setattr(archives, "MOST_BYTES", 10**6)
    written({**schema, "more": [dict(node) for _ in range(100)]}, large.getvalue())
    with pytest.raises(hf.HoldfastError, match=r"would unpack to 8\.\d MB"):
        load("m.skops")
    written(schema, source.read(name), zipfile.ZIP_BZIP2)
    with pytest.raises(hf.HoldfastError, match="size cannot be checked"):
        load("m.skops")


def test_archives_of_arrays_inside_an_archive_are_checked(monkeypatch):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as inner:
        inner.writestr("data.npy", bytes(10**6))
    monkeypatch.setattr(archives, "MOST_BYTES", 10**5)
    with pytest.raises(hf.HoldfastError, match="would unpack to"):
        archives.check_arrays(bomb.getvalue(), "'x.npz'")


def test_nested_parquet_columns_are_refused(folder):
    pd.DataFrame({"a": [["x"] * 3] * 5}).to_parquet("list.parquet")
    with pytest.raises(hf.HoldfastError, match="one value per cell"):
        read_table("list.parquet")


def test_a_damaged_model_is_a_message(folder, capsys):
    model = Ridge().fit(loans()[FEATURES], loans()["merit"])
    for name, value in {"coef_": np.zeros(7), "feature_names_in_": 5, "alpha": "x"}.items():
        skops.dump(spoilt(model, lambda m, n=name, v=value: setattr(m, n, v)), "m.skops")
        base = ["--train", "plain.csv", "--label", "merit", "--model-file", "m.skops"]
        assert run(["audit", *base]) == 2
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert "holdfast: " in said


def test_parquet_files_are_checked_before_they_are_unpacked(folder, monkeypatch):
    n = 300_000
    pd.DataFrame({"a": np.zeros(n), "b": np.ones(n)}).to_parquet("t.parquet")
    pd.DataFrame({"a": ["x" * 1000] * n}).to_parquet("long.parquet")
    assert len(read_table("t.parquet")) == n
    assert Path("long.parquet").stat().st_size < 10**5
    with pytest.raises(
        hf.HoldfastError, match=r"would unpack to 302\.\d MB.*HOLDFAST_MAX_UNPACKED"
    ):
        read_table("long.parquet")
    monkeypatch.setenv("HOLDFAST_MAX_UNPACKED", "1GB")
    assert read_table("long.parquet")["a"].str.len().eq(1000).all()
    monkeypatch.setenv("HOLDFAST_MAX_UNPACKED", "1MB")
    with pytest.raises(hf.HoldfastError, match=r"would unpack to 4\.8 MB; at most 1\.0 MB"):
        read_table("t.parquet")


def test_nothing_is_unpacked_because_of_a_name(folder):
    with zipfile.ZipFile("t.csv.zip", "w") as archive:
        archive.writestr("t.csv", "a,b\n1,2\n")
    with pytest.raises(hf.HoldfastError):
        read_table("t.csv.zip")


def test_gzip_stops_at_the_limit(monkeypatch):
    import gzip

    assert archives.unzipped(gzip.compress(b"x" * 100), "'x'") == b"x" * 100
    monkeypatch.setattr(archives, "MOST_BYTES", 10**5)
    with pytest.raises(hf.HoldfastError, match="would unpack to"):
        archives.unzipped(gzip.compress(bytes(10**6)), "'x'")


@pytest.mark.parametrize(
    ("estimator", "was"),
    [
        (hf.NTKRegressor(), "holdfast.models.kernel"),
        (hf.WideReLURegressor(n_units=8, max_iter=5), "holdfast.models.wide"),
    ],
)
def test_models_saved_before_the_rooms_were_cut_still_load(folder, estimator, was):
    X, y = small()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(X, y)
    own = f"{type(model).__module__}.{type(model).__name__}"
    edited(model, "m.skops", renamed(own, __module__=was))
    np.testing.assert_allclose(load("m.skops").predict(X), model.predict(X))
