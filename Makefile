# The only entry point: make help

PYTHON ?= python3
BIN := .venv/bin
NOTEBOOKS ?=
SEEDS ?=
INTO ?=
SCHEDULER ?=
AGAIN ?=
CLAIMS ?=
KEEP ?=
FAULTS ?= 200
TORCH_INDEX ?=
TO ?=
export OMP_NUM_THREADS ?= 1
export PYDEVD_DISABLE_FILE_VALIDATION ?= 1

.DEFAULT_GOAL := help
.PHONY: help book pdf stills test check unit coverage lab reproduce quick confirm verdicts report site address bench chaos clean lint

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

book: .venv/installed  ## build _build/html from the stored outputs (first time minutes, then seconds)
	@$(BIN)/python tools/build_book.py

pdf: .venv/installed  ## print the whole book to _build/book.pdf through Chromium (a minute)
	@$(BIN)/python tools/pdf.py

stills: book  ## after a change of an interactive figure: its still picture, for pages without JavaScript
	$(BIN)/python tools/stills.py
	@$(BIN)/python tools/build_book.py

NBVAL := SONODE_RESULTS_DIR=$(CURDIR)/_build/test-results $(BIN)/python -m pytest -n 2 --dist loadfile --nbval-lax --nbval-current-env

test: .venv/installed lint  ## everything that must hold, every notebook re-executed (25 minutes); NOTEBOOKS=02_parity runs one chapter alone
	$(NBVAL) $(if $(NOTEBOOKS),$(NOTEBOOKS:%=notebooks/%.ipynb),notebooks tests)

check: .venv/installed lint  ## the quick half: lint, unit tests, notebooks on the smoke profile, the pages in a browser (ten minutes)
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests

unit: .venv/installed  ## the tests of the package's core, evidence, solvers and data (about a minute)
	$(BIN)/python -m pytest -q -n 2 tests/core

coverage: .venv/installed  ## which lines of the package the unit tests run; fails below 95 % (five minutes)
	@mkdir -p _build
	$(BIN)/coverage run -m pytest -q tests/core tests/chapters --ignore tests/chapters/test_notebooks.py
	$(BIN)/coverage report

lab: .venv/installed  ## open the notebooks in JupyterLab, where the controls of "Try it live" train
	$(BIN)/jupyter lab --notebook-dir=notebooks

reproduce: .venv/installed  ## re-execute notebooks in place (about 15 minutes), then the book; NOTEBOOKS=02_parity SCHEDULER=tcp://host:port; INTO=folder SEEDS=20 for other settings
	$(BIN)/python tools/execute.py $(if $(INTO),--into $(INTO)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SCHEDULER),--scheduler $(SCHEDULER)) $(NOTEBOOKS) \
	$(if $(INTO),,|| failed=1; $(BIN)/python tools/update_readme.py && $(MAKE) --no-print-directory book && exit $${failed:-0})

quick: .venv/installed  ## every notebook on the quick profile by papermill, into _build/quick (half an hour); NOTEBOOKS=02_parity runs one
	$(BIN)/python tools/quick.py $(NOTEBOOKS)

confirm: .venv/installed  ## run the notebooks on the 50 seeds kept for confirming, into book/results/confirm (an hour); NOTEBOOKS=02_parity SCHEDULER=tcp://host:port AGAIN=1
	$(BIN)/python tools/confirm.py $(if $(AGAIN),--again) $(if $(SCHEDULER),--scheduler $(SCHEDULER)) $(NOTEBOOKS)

verdicts: .venv/installed  ## judge every claim from the stored values and print its word (seconds); CLAIMS="P4 N1" prints every part
	@$(BIN)/python -m sonode_utils.evidence $(CLAIMS)

report: .venv/installed  ## print the replication report to _build/report.pdf through Chromium (a minute)
	@$(BIN)/python tools/pdf.py --report

site: book pdf report  ## what is published, in _build/site: the book, both PDFs, the notebooks for Colab (five minutes)
	@$(BIN)/python tools/publish.py

address: .venv/installed  ## set the project's address, and write what follows from it: TO=https://github.com/<owner>/<name>, or TO=none
	@$(BIN)/python tools/address.py $(TO)

bench: .venv/installed  ## our training against a loop, diffrax, torchode and the commit before; do neighbours matter? (twenty minutes); KEEP=1 stores it for the book
	$(BIN)/python benchmarks/run.py $(if $(KEEP),--keep)
	$(BIN)/python benchmarks/against.py $(if $(KEEP),--keep)
	$(BIN)/python benchmarks/regroup.py $(if $(KEEP),--keep)

chaos: .venv/installed  ## kills, full disks, edits, damaged files and lost workers against a copy of the checkout (a quarter of an hour); FAULTS=200
	$(BIN)/python tools/chaos.py $(FAULTS)

lint: .venv/installed  ## format, style and types, notebooks too (half a minute)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:  ## remove what was built; the installation stays (remove .venv for that), and what runs left in _build/rejected
	@find _build -mindepth 1 -maxdepth 1 ! -name pending ! -name rejected -exec rm -rf {} + 2>/dev/null || true
	rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis

# The stamp is written last, so an installation that was cut short is taken up again.
.venv/installed: requirements.lock requirements.hashes pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "The book needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
		echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	@echo "Installing the pinned versions into .venv (a few minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.hashes && \
	$(BIN)/python tools/install_torch.py $(TORCH_INDEX) && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . || { \
		echo "The installation failed: see pip's message above. With a network and 2 GB of disk, run make again."; exit 1; }
	@touch $@
