# Every target builds what it needs in .venv. Nothing outside this folder is touched.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help demo test quick coverage rest mutants check soak audit paper bench bench-short docs package lock clean

PYTHON ?= $(firstword $(foreach name,python3.11 python3,$(shell $(name) -c $(IS_NEW) 2>/dev/null && echo $(name))))
IS_NEW := 'import sys; sys.exit(sys.version_info < (3, 11))'

# What the caller has set for another Python must not reach this one.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONWARNINGS VIRTUAL_ENV MYPYPATH
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV PIP_CONSTRAINT PYTEST_ADDOPTS PYTEST_PLUGINS

BIN := .venv/bin
INPUTS := pyproject.toml constraints.txt hatch_build.py $(wildcard src/sfumato/loops/*.[ch]) $(wildcard locks/*.txt)
DEMO_OUT := runs/demo-$(shell date +%Y%m%d-%H%M%S)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: .venv/light.stamp ## train a private model on the built-in graph
	$(BIN)/sfumato train auto --dataset campus --unit edge --epsilon 1 --delta 1e-6 --seeds 1 --out $(DEMO_OUT)

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --durations=15 --doctest-modules
GUARDED := bounded loops noise privacy verify
GUARDING := $(addprefix tests/,$(GUARDED) contracts randomizers record soundness \
  $(addsuffix .py,$(addprefix cli/test_,arrivals charged_arrivals charged_history population windows) \
  $(addprefix central/test_,graph_split linked_groups) $(addprefix evaluation/test_,charged charged_places)))
bounded_floor := 99
loops_floor := 99
noise_floor := 98
privacy_floor := 98
verify_floor := 97

test: .venv/dev.stamp ## run every fast test and the examples in docstrings (FLOORS=yes: with the floors of make coverage)
ifdef FLOORS
	$(MAKE) coverage rest
else
	$(PYTEST) src tests
endif

quick: .venv/dev.stamp ## run the tests that neither fit, start a process nor try every case
	$(PYTEST) --quick tests

coverage: .venv/dev.stamp ## run the tests of the packages that guarantees rest on, and see that they reach every branch
	$(PYTEST) --cov --cov-report= $(addprefix src/sfumato/,$(GUARDED)) $(GUARDING)
	@set -e; $(foreach name,$(GUARDED),echo "== branch coverage of $(name), at least $($(name)_floor) percent"; \
	  $(BIN)/coverage report --include='src/sfumato/$(name)/*' --fail-under=$($(name)_floor);)

rest: .venv/dev.stamp ## run the tests that `make coverage` leaves
	$(PYTEST) src tests $(addprefix --ignore=,$(addprefix src/sfumato/,$(GUARDED)) $(GUARDING))

MUTANTS ?= --count 150

mutants: .venv/dev.stamp ## change single lines of what guarantees rest on, and tell what no test notices (MUTANTS="--seed 1 noise")
	OMP_NUM_THREADS=1 $(BIN)/python tools/mutants.py $(MUTANTS)

check: .venv/dev.stamp ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

soak: .venv/dev.stamp ## run the long tests and the blocks of every page, and the others once with fresh keys
	SFUMATO_TEST_KEYS=fresh $(PYTEST) tests
	SFUMATO_TEST_KEYS=fresh $(BIN)/python -m pytest -m soak tests || test $$? -eq 5

audit: .venv/dev.stamp ## attack the claims of every method and find planted faults; write docs/results/audit.md
	SFUMATO_TEST_KEYS=fresh OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m audit tests
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/audit.py > docs/results/audit.md

SPEC ?= --all
PROFILE ?= quick
SFUMATO_DATA ?= ../shared/data

paper: .venv/all.stamp ## run the quick profile of every published table, and go on after a stop (SPEC=name, PROFILE=full)
	$(BIN)/sfumato experiment run $(SPEC) $(if $(filter full,$(PROFILE)),,--quick) --data-dir "$(SFUMATO_DATA)" --jobs 2

bench: .venv/dev.stamp ## time every budget beside a named peer; write docs/results/bench.md
	$(BIN)/python -W ignore benchmarks/bench.py

bench-short: .venv/dev.stamp ## compare ratios at small sizes with the recorded ones
	$(BIN)/python -W ignore benchmarks/bench.py --check

docs: .venv/dev.stamp ## build the documentation site, and look whether all is there
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	SFUMATO_SITE=build/site $(BIN)/python -m pytest -q -m site tests/meta/test_docs.py
	@echo "open build/site/index.html"

PACKAGE := build/package
TRIED := $(PACKAGE)/env/bin
FIRST := train auto --dataset campus --unit edge --epsilon 1 --delta 1e-6 --no-controls --out

package: .venv/dev.stamp ## build source package and wheel in dist/, and try both in a new environment
	rm -rf dist $(PACKAGE) && mkdir -p $(PACKAGE)
	$(BIN)/python -m hatchling build -t sdist -d dist
	tar -xzf dist/sfumato-*.tar.gz -C $(PACKAGE)
	cd $(PACKAGE)/sfumato-* && $(CURDIR)/$(BIN)/python -m hatchling build -t wheel -d $(CURDIR)/dist
	$(BIN)/python -m venv $(PACKAGE)/env
	$(TRIED)/python -m pip install -q --no-compile -c constraints.txt hatchling "$$(ls dist/sfumato-*.whl)"
	$(TRIED)/sfumato $(FIRST) $(PACKAGE)/wheel
	$(TRIED)/sfumato report $(PACKAGE)/wheel
	$(TRIED)/sfumato predict $(PACKAGE)/wheel --out $(PACKAGE)/predictions.csv
	$(TRIED)/sfumato verify $(PACKAGE)/wheel
	CC=false $(TRIED)/python -m pip install -q --force-reinstall --no-deps --no-build-isolation dist/sfumato-*.tar.gz
	$(TRIED)/sfumato $(FIRST) $(PACKAGE)/source
	$(TRIED)/sfumato verify $(PACKAGE)/source

lock: build/uv/bin/uv ## write locks/ again after a change of pyproject.toml or constraints.txt
	for extra in light all dev; do \
	  $< pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	    --no-emit-package torch --overrides locks/overrides.in -c constraints.txt --extra $$extra \
	    pyproject.toml locks/inputs.in $$(test $$extra = light || echo locks/torch.in) -o locks/$$extra.txt || exit; \
	done

clean: ## remove the environment, builds and caches; keep runs/
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "Expected Python 3.11 or newer as python3.11 or python3, found none; install it, or run: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@"$(PYTHON)" -c $(IS_NEW) || { echo "Expected PYTHON to be Python 3.11 or newer, got $(PYTHON); run: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	"$(PYTHON)" -m venv .venv

# Packages come by hash, but for torch: in hash mode pip passes over a build for processors alone that lies in a folder,
# and takes the one with gigabytes of GPU packages from the index.
INSTALL := $(BIN)/python -m pip install -q --no-compile
# The demo needs no torch: without it floor and ceiling are chosen among fewer models.
define install
	$(INSTALL) --require-hashes --no-deps -r locks/$(1).txt
	$(if $(filter light,$(1)),,$(INSTALL) -c constraints.txt torch)
	$(INSTALL) --no-deps --no-build-isolation -e .
endef

.venv/light.stamp: $(INPUTS) | .venv/pyvenv.cfg
	$(call install,light)
	@touch $@

.venv/all.stamp: $(INPUTS) | .venv/pyvenv.cfg
	$(call install,all)
	@touch $@ .venv/light.stamp

.venv/dev.stamp: $(INPUTS) | .venv/pyvenv.cfg
	$(call install,dev)
	@touch $@ .venv/all.stamp .venv/light.stamp

build/uv/bin/uv: | .venv/pyvenv.cfg
	$(BIN)/python -m venv build/uv
	build/uv/bin/python -m pip install -q uv==0.13.9
