# Two commands do everything: `make demo` and `make test`. Each sets up what it needs in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
TRAINING := $(VENV)/.training

# A file of tests is run by one process. Two processes per core: tests wait for half of their time.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder
LOCAL := --ignore tests/on_kubernetes --ignore tests/training
QUICK := -m "not thorough" --hypothesis-profile quick

# Compiled tests are kept, also where Python is told not to write any (as in many containers): each
# process of the tests would compile all of them, with their assertions rewritten.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-training test-kube test-busy training chaos kube kube-down bench \
	bench-kube lint docs docs-serve dist format clean

demo: $(READY)
	@$(BIN)/python examples/quickstart.py

# Every feature once, and all pure rules: 6 minutes at most on two quiet cores.
test: $(DEV)
	@$(PYTEST) $(LOCAL) $(QUICK)

# Also the long tests of properties, fuzzing, kills at every step, crowds, upgrades: 12 minutes.
test-all: $(DEV)
	@$(PYTEST) $(LOCAL)

# Real training with PyTorch, TensorFlow and JAX, which it installs: a few hundred MB each.
test-training: $(TRAINING)
	@$(PYTEST) tests/training

# `make test` three times beside two busy loops: a test that depends on speed fails.
test-busy: $(DEV)
	@for loop in 1 2; do $(BIN)/python -c 'while True: pass' & loops="$$loops $$!"; done; \
	trap "kill $$loops" EXIT; trap 'exit 130' INT TERM; \
	for round in 1 2 3; do $(PYTEST) $(LOCAL) $(QUICK) || exit 1; done

training: $(TRAINING)

# The tests that kill things, in their long form. A failure prints its seed: WINDLASS_CHAOS_SEED=7 make chaos
chaos: $(DEV)
	@WINDLASS_CHAOS=long $(BIN)/python -m pytest tests/chaos

# A real Kubernetes on this machine, built once: Debian 12 and root.
kube: $(DEV)
	@PYTHONPATH=tests $(BIN)/python -m on_kubernetes.cluster up

kube-down: $(DEV)
	@PYTHONPATH=tests $(BIN)/python -m on_kubernetes.cluster down

# make test-kube KUBECONFIG=~/.kube/config runs them on any cluster. One that the environment names
# is not meant by that: it may be where others work.
ifeq ($(origin KUBECONFIG),command line)
export WINDLASS_TEST_KUBECONFIG := $(KUBECONFIG)
endif

# make test-kube SHORT=yes leaves out tests marked thorough: 10 minutes on a cluster that is built.
test-kube: $(DEV)
	@test -n "$$WINDLASS_TEST_KUBECONFIG" || PYTHONPATH=tests $(BIN)/python -m on_kubernetes.cluster up
	@$(PYTEST) tests/on_kubernetes --timeout 600 $(if $(SHORT),$(QUICK))

lint: $(DEV)
	@$(BIN)/ruff check --no-cache .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python tools/check_prose.py
	@$(MAKE) --no-print-directory docs

# The documentation as a site, in site/. It needs no network. A broken link fails it: without
# --quiet, which hides warnings from --strict.
docs: $(DEV)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The same on a port of this machine, built anew when a page or a docstring changes.
docs-serve: $(DEV)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict

# The wheel and the source archive, in dist/. Both state the version of the commit.
dist: $(READY)
	@rm -rf dist
	@$(BIN)/uv build --quiet --out-dir dist
	@ls dist

bench: $(DEV)
	@$(BIN)/python -m benchmarks $(ARGS)

# Many jobs at once, on the objects of a cluster alone. ARGS="--jobs 20" for fewer.
bench-kube: $(DEV)
	@test -n "$$WINDLASS_TEST_KUBECONFIG" || PYTHONPATH=tests $(BIN)/python -m on_kubernetes.cluster up
	@WINDLASS_TEST_KUBECONFIG=$${WINDLASS_TEST_KUBECONFIG:-$${XDG_CACHE_HOME:-$$HOME/.cache}/windlass/kube/run/kubeconfig} \
		$(BIN)/python -m benchmarks.kube_jobs $(ARGS)

format: $(DEV)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV) dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Windlass and its dependencies are compiled once, here: where Python may not write bytecode, as in
# many containers (PYTHONDONTWRITEBYTECODE), every process would compile all its imports.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Windlass needs Python 3.10 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "No virtual environment could be made. On Debian and Ubuntu: apt install python3-venv"; rm -rf $(VENV); exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable '.[examples]'
	@$(BIN)/python -m compileall -q src
	@touch $(READY)

$(DEV): $(READY)
	@echo "Installing the tools of tests and lint into $(VENV) ..."
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev]'
	@touch $(DEV)

$(TRAINING): $(DEV) tests/training/install.py
	@echo "Installing PyTorch, TensorFlow and JAX into $(VENV) ..."
	@$(BIN)/python tests/training/install.py
	@touch $(TRAINING)
