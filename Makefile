# Two commands do all set-up on a machine that has Python 3.11 or newer, make and a package index:
#   make demo    the main job, end to end; writes demo/index.html
#   make test    ruff, mypy, pytest
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# One thread for each of the two test workers: more would only fight over the cores.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test lint types unit ledger page help help-page docs notebooks setup clean

demo: setup
	$(BIN)/inweights demo --out demo

test: lint types unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

# Each worker begins with half of the tests in their order, so that what a file makes once is made in one of them, and
# takes over tests of the other when it has none left, so that both end together.
unit: setup
	$(TEST_ENV) $(BIN)/pytest -n 2 --dist worksteal -q --durations=30

# The full run of the ledger, then its page and its recorded verdicts; goes on where it was stopped. Two trials at a
# time, one thread each: what they find does not depend on it.
ledger: setup
	$(TEST_ENV) $(BIN)/inweights claims run --all --jobs 2 --out docs/claims || test $$? -eq 1
	$(BIN)/python -c "from pathlib import Path; from inweights.report import record; record(Path('docs/claims'), Path('docs'))"
	$(BIN)/python docs/registration/commits.py
	$(BIN)/python -c "from pathlib import Path; from inweights.report import write_site; write_site(Path('docs'))"

# The page and the site alone, once more: with new remarks, and with what has changed since the run.
page: setup
	$(BIN)/python -c "from pathlib import Path; from inweights.report import write_page; write_page(Path('docs'))"
	$(BIN)/python -c "from pathlib import Path; from inweights.report import write_site; write_site(Path('docs'))"

# What there is to make.
help:
	@sed -n 's/^#   make/make/p; s/^\([a-z-]*\):.*/make \1/p' Makefile | sort -u

# The page of all commands and options.
help-page: setup
	$(BIN)/python -m inweights.cli._help > docs/help.md

# The guide, into site/; a broken link or a page that is not in its menu is an error. Building needs no network.
docs: setup $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The notebooks, run with SmolLM2 by a Jupyter kernel, with their output; some minutes.
notebooks: setup $(VENV)/.docs
	$(BIN)/python docs/notebooks/execute.py

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs,notebook]'
	@touch $@

setup: $(READY)

# The stamp is newer than the files it depends on once set-up is done, so the next run costs nothing.
$(READY): pyproject.toml constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "inweights needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[peft,gguf,lab,data,sweep,llamacpp,app,dev]'
	@touch $(READY)

clean:
	rm -rf $(VENV) build dist demo site .mypy_cache .pytest_cache .ruff_cache .hypothesis
