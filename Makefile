# Two commands do everything: `make demo` and `make test`. Each sets up what it needs in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TRAINING := $(VENV)/.training

.PHONY: demo test training chaos kube kube-down test-kube bench-kube lint docs bench format clean

demo: $(READY)
	@$(BIN)/python examples/quickstart.py

test: $(READY)
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

# PyTorch, TensorFlow and JAX, which `make test` then trains with: a few hundred MB each.
training: $(TRAINING)

# The tests that kill things, in their long form. A failure prints its seed: WINDLASS_CHAOS_SEED=7 make chaos
chaos: $(READY)
	@WINDLASS_CHAOS=long $(BIN)/python -m pytest tests/chaos

# A real Kubernetes on this machine, built once: Debian 12 and root. `make test` then runs on it too.
kube: $(READY)
	@PYTHONPATH=tests $(BIN)/python -m kube.cluster up

kube-down: $(READY)
	@PYTHONPATH=tests $(BIN)/python -m kube.cluster down

# make test-kube KUBECONFIG=~/.kube/config runs them on any cluster. One that the environment names
# is not meant by that: it may be where others work.
ifeq ($(origin KUBECONFIG),command line)
export WINDLASS_TEST_KUBECONFIG := $(KUBECONFIG)
endif

test-kube: $(READY)
	@test -n "$$WINDLASS_TEST_KUBECONFIG" || PYTHONPATH=tests $(BIN)/python -m kube.cluster up
	@$(BIN)/python -m pytest tests/kube -n 4 --dist loadfile --no-loadscope-reorder

lint: $(READY)
	@$(BIN)/ruff check --no-cache .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# The reference, docs/sdk.md, from the docstrings.
docs: $(READY)
	@$(BIN)/python tools/reference.py

bench: $(READY)
	@$(BIN)/python -m benchmarks $(ARGS)

# Many jobs at once, on the objects of a cluster alone. ARGS="--jobs 20" for fewer.
bench-kube: $(READY)
	@test -n "$$WINDLASS_TEST_KUBECONFIG" || PYTHONPATH=tests $(BIN)/python -m kube.cluster up
	@WINDLASS_TEST_KUBECONFIG=$${WINDLASS_TEST_KUBECONFIG:-$${XDG_CACHE_HOME:-$$HOME/.cache}/windlass/kube/run/kubeconfig} \
		$(BIN)/python -m benchmarks.kube_jobs $(ARGS)

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

# All is compiled once, here: where Python may not write what it compiled, as many containers say
# (PYTHONDONTWRITEBYTECODE), every process would compile all it imports.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Windlass needs Python 3.10 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "No virtual environment could be made. On Debian and Ubuntu: apt install python3-venv"; rm -rf $(VENV); exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable '.[dev]'
	@$(BIN)/python -m compileall -q src
	@touch $(READY)

$(TRAINING): $(READY) tests/training/install.py
	@echo "Installing PyTorch, TensorFlow and JAX into $(VENV) ..."
	@$(BIN)/python tests/training/install.py
	@touch $(TRAINING)
