# Every target prepares .venv by itself, from the exact versions in constraints.txt.
# Another interpreter:      make PYTHON=python3.12 test
# Tests, how many at once:  make PROCESSES=4 test
# PyTorch without a GPU:    PIP_EXTRA_INDEX_URL=<index of PyTorch's CPU builds> make demo

PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3) python3)
PROCESSES ?= 3
FUZZ_RUNS ?= 1000000
FUZZ_FLAGS ?= --store
# A crash of a test process ends the run: pytest-xdist starts another one, then waits for ever for the tests of the first.
PARALLEL = -n $(PROCESSES) --max-worker-restart 0
SEED := $(or $(SEED),$(shell date +%s))
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip --disable-pip-version-check

# What freezes results: hashes of ops and pipelines, vectors of the contracts, one case of the law.
OLDER  := .venv-older
FROZEN := tests/ops/test_golden.py tests/ops/test_batch_golden.py tests/ops/test_folds.py \
          tests/ops/test_points.py::test_golden tests/pipeline/test_golden.py \
          tests/rng/test_philox.py tests/rng/test_draws.py tests/rng/test_maths.py \
          tests/rng/test_random_vectors.py tests/rng/test_key_quality.py \
          tests/order/test_order_vectors.py tests/dataset/format/test_dataset_vectors.py \
          tests/dataset/images/test_pixels.py "tests/law/test_law.py::test_one_worker[training]"

# Bytecode is written, also where the environment forbids it: without any, each of the hundreds of processes that tests
# start would compile all that it imports. `make clean` removes it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test quick alone check site bench proofs golden-older hostile fuzz torture endurance jpeg compose-test dist clean

help:            ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP)   ## make a dataset of photographs, pack it, serve it, train on it (about 2 minutes)
	$(BIN)/python examples/segmentation/demo.py --out demo

test: $(STAMP)   ## run every test, with an empty kernel cache
	rm -rf .pytest_cache/kernels
	$(BIN)/python -m pytest $(PARALLEL) --dist loadscope

quick: $(STAMP)  ## the tests that compile nothing (half a minute)
	$(BIN)/python -m pytest -q -m "not slow" --check-slow tests/protocol tests/order tests/server/state tests/fuzz tests/house/test_layout.py

alone: $(STAMP)  ## each file of tests/ops alone, each folder alone, each folder backwards (hours)
	nice -n 19 $(BIN)/python tools/alone.py

check: $(STAMP)  ## style, types, layers, links of the documentation, its site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/house/links.py
	$(BIN)/python tools/site/build_site.py

site: $(STAMP)   ## the documentation site, as build/site/html/index.html (half a minute)
	$(BIN)/python tools/site/build_site.py

bench: $(STAMP)  ## compare with torch.utils.data.DataLoader on the same files (about 10 minutes)
	$(BIN)/python benchmarks/throughput.py

proofs: $(STAMP) ## the same weights after 20 kills; how busy loaders keep an accelerator (10 minutes); docs/proofs.md
	$(BIN)/python benchmarks/same_weights.py
	$(BIN)/python benchmarks/busy_accelerator.py $(PEERS)

golden-older: $(OLDER)/.installed ## the frozen results with the oldest numba and NumPy (about an hour)
	$(OLDER)/bin/python -m pytest $(PARALLEL) --dist loadscope --timeout 3600 $(FROZEN)

hostile: $(STAMP) ## attacks on daemon, clients and readers in their long form (about an hour)
	STOKER_TEST_HOSTILE=10000 $(BIN)/python -m pytest tests/hostile

fuzz: $(STAMP)   ## 1,000,000 inputs for everything that reads bytes, guided by coverage (2 minutes)
	if $(BIN)/python tools/fuzz.py --supported; then \
	  $(PIP) install -q -c constraints.txt --group fuzz && \
	  $(BIN)/python tools/fuzz.py --runs $(FUZZ_RUNS) --jobs $(PROCESSES) $(FUZZ_FLAGS); fi

torture: $(STAMP) ## kill everything at random 1,000 times while streams are read (about 5 minutes); SEED replays
	@echo "SEED=$(SEED)"
	STOKER_STORMS=30 STOKER_STORMS_FROM=$(SEED) $(BIN)/python -m pytest -x $(PARALLEL) --dist load --timeout 1800 tests/torture/test_storms.py

endurance: $(STAMP) ## look at memory over 100,000 batches, and for what is left after 200 kills of everything (about an hour)
	STOKER_ENDURANCE=100 $(BIN)/python -m pytest -x --timeout 1800 tests/torture/test_endurance.py

jpeg: $(STAMP)   ## twice (exact, at a fraction) 10,000 files in 100,000 boxes and 10,000,000 changed intervals for Stoker's decoder of JPEGs (hours)
	STOKER_JPEG_FILES=10000 STOKER_JPEG_MUTATIONS=10000000 $(BIN)/python -m pytest tests/dataset/images/jpeg/test_jpeg_decoding.py tests/dataset/images/jpeg/test_reduced_decoding.py -k "random_files or damaged_intervals or largest_image"

compose-test: $(STAMP) ## build both images, run compose.yaml, kill its daemon, ask its Prometheus (Docker; after make demo)
	$(BIN)/python tools/compose_test.py

dist: $(STAMP)   ## what a release uploads, with its bill of materials, tried on each Python of PYTHONS (10 minutes)
	$(PIP) install -q -c constraints.txt --group dist
	$(BIN)/python tools/release/make_dist.py $(PYTHONS)

clean:           ## remove all that the other targets made
	rm -rf $(VENV) $(OLDER) build dist demo benchmarks/data benchmarks/results/*.json
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build backend comes from constraints.txt as well: hence no build isolation.
$(STAMP): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Stoker needs Python 3.11 or newer, got " + sys.version.split()[0] + "; run: make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(PIP) install --quiet -c constraints.txt pip
	$(PIP) install --quiet -c constraints.txt hatchling editables
	$(PIP) install --quiet -c constraints.txt --no-build-isolation -e '.[server,torch]' --group dev
	touch $@

$(OLDER)/.installed: pyproject.toml constraints.txt constraints-older.txt
	test -x $(OLDER)/bin/python || "$(PYTHON)" -m venv $(OLDER)
	awk -F== 'NR == FNR {older[$$1]} NR == FNR || !($$1 in older)' constraints-older.txt constraints.txt > $(OLDER)/constraints.txt
	$(OLDER)/bin/python -m pip install --quiet -c $(OLDER)/constraints.txt pip
	$(OLDER)/bin/python -m pip install --quiet -c $(OLDER)/constraints.txt hatchling editables
	$(OLDER)/bin/python -m pip install --quiet -c $(OLDER)/constraints.txt --no-build-isolation -e '.[server]' --group dev
	touch $@
