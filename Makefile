# make demo   trace, run, compile, check and time an example model; write demo.html
# make test   all checks and tests
# Both make .venv themselves; a second run starts at once. `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
# Tests run in this many processes, each of one thread (see `pytest` below): one more than the
# cores of CI, because a browser and a compiler are waited for now and then.
JOBS ?= 3
PYTEST_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
BASE := $(VENV)/.installed-base
TORCH := $(VENV)/.installed-torch
DEV := $(VENV)/.installed-dev
PEERS := $(VENV)/.installed-peers
RAY := $(VENV)/.installed-ray
# C++, but for what .clang-format-ignore names.
CXX_FILES := find benchmarks examples src tests \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cuh' \) -print0
say = @printf '\n== %s\n'

# Imported files stay compiled, whatever the shell that calls this says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all test-docs test-cross test-distributed lint lint-platforms format viewer test-viewer browser pytest test-models test-gpu fuzz bench bench-regression bench-symbolic bench-viewer bench-zoo gallery coverage docs clean

help:
	@echo "make demo         trace, run, compile, check and time an example; write demo.html"
	@echo "make test         all checks and tests (what CI runs)"
	@echo "make test-all     the same, with the slow tests"
	@echo "make test-models  models and ops against PyTorch and ONNX: the suites in full"
	@echo "make test-gpu     ops, models and random graphs on the GPU of this machine, one summary"
	@echo "make test-docs    every block of every guide, run as it stands"
	@echo "make test-cross   saved models built by clang, and for ARM under qemu"
	@echo "make test-distributed  ranks that train, tasks and services on a Ray cluster"
	@echo "make fuzz MINUTES=10  mutated files, hostile values, random graphs, kills and forks"
	@echo "make lint         ruff, mypy, clang-format, layers, weight of the import; no tests"
	@echo "make lint-platforms  types of the code paths of macOS and Windows"
	@echo "make format       let ruff, clang-format and Biome rewrite the sources"
	@echo "make bench        the measurements in benchmarks/"
	@echo "make bench-regression BEFORE=DIR  this tree against another checkout, in turns"
	@echo "make bench-symbolic  modules for all sizes beside modules for one size each"
	@echo "make bench-zoo    models outside of the tables beside PyTorch: where are we slower?"
	@echo "make bench-viewer the viewer beside Netron and Model Explorer, in Chromium"
	@echo "make gallery      24 graphs as the viewer draws them, measured beside ELK, on one page"
	@echo "make docs         the documentation as a site, in build/site"
	@echo "make coverage     which lines the tests reach"
	@echo "make viewer       build the viewer's bundle, when its sources changed"
	@echo "make clean        remove .venv, caches and build output"

# The package alone (NumPy is its one dependency).
$(BASE): pyproject.toml constraints.txt
	$(say) "setup: the package"
	@tools/setup_venv.sh $(PYTHON) $(VENV)
	$(PIP) install -q -c constraints.txt -e .
	@touch $@

# Everything that development uses; torch is what takes the time. pip would compile each file of
# it, four times as many as are ever imported: importing them once keeps those that are.
$(DEV): $(BASE)
	$(say) "setup: tools, torch and onnx for the tests (minutes on the first run)"
	$(PIP) install -q --no-compile -c constraints.txt -e '.[dev,torch,onnx]'
	@$(BIN)/python -c 'import onnxruntime, playwright.sync_api, scipy.stats, torch._dynamo, torch.onnx, transformers'
	@touch $@

# PyTorch, which the demo compares with.
$(TORCH): $(BASE)
	$(say) "setup: PyTorch (a minute on the first run)"
	$(PIP) install -q -c constraints.txt -e '.[torch]'
	@touch $@

demo: $(TORCH)
	$(say) "demo"
	@$(BIN)/python -m glasshouse demo

lint: $(DEV)
	$(say) "ruff check"
	@$(BIN)/ruff check
	$(say) "ruff format"
	@$(BIN)/ruff format --check
	$(say) "mypy (strict)"
	@$(BIN)/mypy
	$(say) "clang-format"
	@$(CXX_FILES) | xargs -0 $(BIN)/clang-format --dry-run --Werror
	$(say) "layers"
	@$(BIN)/python tools/check_layers.py
	$(say) "import"
	@$(BIN)/python tools/check_import.py

# Code paths of other systems, which nothing here runs.
lint-platforms: $(DEV)
	@for system in darwin win32; do \
	  $(BIN)/mypy --platform $$system --cache-dir .mypy_cache/$$system || exit 1; \
	done

format: $(DEV)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(CXX_FILES) | xargs -0 $(BIN)/clang-format -i
	$(BIN)/python tools/viewer_bundle.py npm run format

viewer: $(BASE)
	@$(BIN)/python tools/viewer_bundle.py

# Cheap checks first. The viewer and the browser do not need what takes long to install, nor do
# they keep a core busy, so both are seen to meanwhile.
test:
	@$(MAKE) --no-print-directory $(BASE)
	@$(MAKE) --no-print-directory -j2 --output-sync=line lint test-viewer browser
	@$(MAKE) --no-print-directory pytest
	$(say) "all checks and tests passed"

test-all:
	@$(MAKE) --no-print-directory test MARKS=

test-viewer: $(BASE)
	$(say) "viewer: format and lint, types, unit tests, bundle"
	@$(BIN)/python tools/viewer_bundle.py npm run lint
	@$(BIN)/python tools/viewer_bundle.py npm run typecheck
	@$(BIN)/python tools/viewer_bundle.py npm test
	@$(BIN)/python tools/viewer_bundle.py

# Installs one where that can be done; tests that need it are left out where it cannot.
browser:
	@tools/ensure_chromium.sh >/dev/null || true

# One thread a process: two processes with two threads each only get into each other's way. A process
# that has run out of tests takes over some of another's: those of a browser take longest.
pytest: export OMP_NUM_THREADS := 1
pytest: export OPENBLAS_NUM_THREADS := 1
pytest: MARKS ?= not slow
pytest: $(DEV)
	$(say) "pytest"
	@marks="$(MARKS)"; \
	if grep -rqs playwright tests --include=*.py && ! CHROMIUM=$$(tools/ensure_chromium.sh); then \
	  marks="$${marks:+$$marks and }not browser"; \
	fi; \
	export CHROMIUM; \
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "$$marks" $(TESTS) $(PYTEST_ARGS)

test-models: $(DEV)
	@$(MAKE) --no-print-directory pytest MARKS= TESTS="tests/models tests/opinfo tests/onnx_suite"

test-docs: $(DEV)
	@$(MAKE) --no-print-directory pytest MARKS= TESTS=tests/docs

# Needs clang, g++-aarch64-linux-gnu and qemu-user; what is absent is skipped, with a reason.
test-cross: $(DEV)
	@$(MAKE) --no-print-directory pytest MARKS= TESTS=tests/cross

# Real ranks and a real Ray cluster, both on this machine; Ray is an extra of its own.
$(RAY): $(DEV)
	$(say) "setup: Ray"
	$(PIP) install -q -c constraints.txt -e '.[dev,torch,onnx,serve]'
	@touch $@

test-distributed: $(RAY)
	@$(MAKE) --no-print-directory pytest MARKS= JOBS=1 TESTS="tests/distributed tests/unit/distributed"

# MINUTES for all campaigns together; ARGS="--seed 7 process_stress" repeats one.
MINUTES ?= 10
fuzz: $(DEV)
	$(say) "fuzz: $(MINUTES) minutes"
	@$(BIN)/python tests/fuzz/run.py --minutes $(MINUTES) $(ARGS)

# Alone on the machine: a measurement beside other work says nothing.
# The peers that the measurements compare with; about 1 GB.
$(PEERS): $(DEV)
	$(say) "setup: peers for the measurements"
	$(PIP) install -q -c constraints.txt -e '.[dev,torch,onnx,bench]'
	@touch $@

# Needs a GPU, and a PyTorch that sees it: PYTHON=python3 VENV=... names another environment.
test-gpu: $(DEV)
	$(say) "ops, models and random graphs on the GPU"
	@PYTHONPATH=src:tests $(BIN)/python tests/gpu/run.py build

bench: $(PEERS)
	@for script in benchmarks/*.py; do \
	  printf '\n== %s\n' "$$script"; $(BIN)/python "$$script" || exit 1; \
	done
	$(say) "benchmarks/cpu"
	@$(BIN)/python benchmarks/cpu/run.py --out build/bench-cpu.json

# BEFORE=../before is another checkout; ARGS="-w bert,mlp_1024x512" for some workloads.
bench-regression: $(DEV)
	@mkdir -p build
	@$(BIN)/python benchmarks/cpu/trees.py $(BEFORE) . --max-slower 1.15 --out build/regression.json $(ARGS)

# ARGS="-w bert --seconds 6"
bench-symbolic: $(DEV)
	@$(BIN)/python benchmarks/cpu/symbolic.py $(ARGS)

# ARGS="bert wavenet --systems eager,glasshouse,inductor --file build/zoo.jsonl"; DEV has no peers.
bench-zoo: $(DEV)
	@$(BIN)/python -m benchmarks.zoo $(ARGS)

# ARGS="--quick -g bert -s glasshouse,netron"; PEERS_PYTHON=... names an environment with the peers.
bench-viewer: $(DEV)
	@$(BIN)/python tools/viewer_bundle.py
	@CHROMIUM=$$(tools/ensure_chromium.sh) $(BIN)/python benchmarks/viewer/run.py $(ARGS)

# ARGS="-g mlp,bert --quick" for some graphs at one size.
gallery: $(DEV)
	@$(BIN)/python tools/viewer_bundle.py
	@CHROMIUM=$$(tools/ensure_chromium.sh) $(BIN)/python benchmarks/viewer/gallery/run.py $(ARGS)

# The documentation as a site, in build/site; a warning is an error. Its notebooks run in Jupyter.
docs: $(TORCH)
	$(PIP) install -q -c constraints.txt -e '.[docs]'
	@mkdir -p build/ipython/profile_default
	@echo 'c.IPKernelApp.log_level = "ERROR"' > build/ipython/profile_default/ipython_kernel_config.py
	@IPYTHONDIR=$(CURDIR)/build/ipython NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(say) "build/site/index.html"

# Which lines the fast tests reach; build/coverage.xml for tools that show it.
coverage: $(DEV)
	@$(MAKE) --no-print-directory pytest PYTEST_ARGS="--cov=glasshouse --cov-report=xml:build/coverage.xml --cov-report=term:skip-covered $(PYTEST_ARGS)"

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	rm -rf viewer/node_modules viewer/dist src/glasshouse/show/static
