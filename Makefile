# Every target makes and reuses .venv by itself; nothing else on the machine is touched.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo desk test test-slow test-oldest test-torch lint audit format docs links package bench peers success pictures reproduce clean

demo: $(VENV)/.installed
	$(BIN)/holdfast demo

# the desk on the demo's data, with a filled ledger in holdfast-desk-demo; Ctrl-C closes it
desk: $(VENV)/.web
	$(BIN)/holdfast serve --demo

# JOBS: tests at a time; "make test JOBS=0" runs them one after another in this process.
# "make test COVERAGE=1" also prints which lines ran, and takes a third longer.
JOBS ?= auto
test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) $(if $(COVERAGE),--cov=holdfast --cov-report=term:skip-covered)

test-slow: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --group slow
	$(BIN)/python -m pytest -n $(JOBS) -m slow

# the wheel and the source distribution in dist, and what is in them
package: $(VENV)/.test $(VENV)/.package
	HOLDFAST_DIST=dist $(BIN)/python -m pytest -m "slow or not slow" tests/test_package.py

# the same suite with the oldest releases that pyproject.toml declares
test-oldest:
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet "pip>=25.1"
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint .ci/oldest.txt --editable .
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint .ci/oldest.txt --group test
	$(VENV)-oldest/bin/python -m pytest -n $(JOBS)

# networks of torch, and their private training by opacus, in an environment of their own. TORCH names
# another release; PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS, where a CPU build is to be had
TORCH ?= torch==2.13.0
test-torch: $(VENV)-torch/.installed
	$(VENV)-torch/bin/python -m pytest -o addopts="-ra --strict-markers --doctest-modules" -n $(JOBS) \
	  tests/models/test_torch.py "tests/test_examples.py::test_example[torch_module]" \
	  src/holdfast/estimators/from_torch.py
	@$(VENV)-torch/bin/python -c 'import torch, opacus; print("with torch", torch.__version__, "and opacus", opacus.__version__)'

$(VENV)-torch/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-torch
	$(VENV)-torch/bin/python -m pip install --quiet "pip>=25.1"
	$(VENV)-torch/bin/python -m pip install --quiet "$(TORCH)"
	$(VENV)-torch/bin/python -m pip install --quiet --editable '.[dp]'
	$(VENV)-torch/bin/python -m pip install --quiet --group torch
	touch $@

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory audit

# known vulnerabilities of what is installed; where nobody can be asked, that is said and no failure
audit: $(VENV)/.lint
	@$(BIN)/pip-audit --progress-spinner off --skip-editable > $(VENV)/audit.log 2>&1 \
	  && echo "pip-audit: $$(head -n 1 $(VENV)/audit.log); packages nobody could be asked about: $$(grep -c 'could not be audited' $(VENV)/audit.log)" \
	  || { if grep -q "^Found [0-9]* known" $(VENV)/audit.log; then cat $(VENV)/audit.log; exit 1; \
	       else echo "pip-audit could not ask for known vulnerabilities: $$(tail -n 1 $(VENV)/audit.log | cut -c 1-120)"; fi; }

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/bench_models.py
	$(BIN)/python benchmarks/bench_search.py
	$(BIN)/python benchmarks/bench_smooth.py
	$(BIN)/python benchmarks/bench_forest.py
	$(BIN)/python benchmarks/bench_audit.py
	$(BIN)/python -m pip install --quiet --no-deps dice-ml==0.12  # its dependencies bring CUDA
	$(BIN)/python benchmarks/bench_recourse.py
	$(BIN)/python benchmarks/bench_proofs.py
	$(BIN)/python benchmarks/bench_harden.py margin
	$(BIN)/python benchmarks/bench_scale.py

# Holdfast beside its peers, each in an environment of its own; PEERS="dice reachml" asks these only
peers: $(VENV)/.installed
	$(BIN)/python benchmarks/peers/run.py $(PEERS)

success: $(VENV)/.installed
	$(BIN)/python benchmarks/recourse_success.py

# the pictures of README and first page: the demo's report, and a loop of the desk (needs Chromium)
pictures: $(VENV)/.test
	$(BIN)/python benchmarks/pictures.py
	$(BIN)/python benchmarks/desk_loop.py

# the site, in docs/_build/html: tutorials run, no request is made, a warning is a failure
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs docs/_build/html
	@echo "the site: docs/_build/html/index.html"

# external links, by hand: this one asks the network
links: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -D plot_gallery=0 -b linkcheck docs docs/_build/links


reproduce: $(VENV)/.installed
	$(BIN)/holdfast reproduce --out docs/reproduction --resume

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-torch $(VENV)-peers docs/_build docs/gallery docs/reference/api
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Holdfast needs Python 3.11 or newer; run: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.web: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[web]'
	touch $@

# one stamp per dependency group of pyproject.toml
$(VENV)/.%: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group $*
	touch $@
