# `make run` and `make test` set everything up on a fresh machine: environment, build, then the job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRAINED := build/training
NATIVE := $(wildcard src/shoal/native/*) CMakeLists.txt pyproject.toml constraints.txt

.PHONY: run test check bench train clean

run: $(VENV)/ready
	$(BIN)/shoal generate --prompt "The capital of France is" --max-new-tokens 24
	$(BIN)/shoal generate --chat --prompt "What is the capital of Japan?"

test: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 -q

check: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 -q
	$(BIN)/python -m pytest -q tests/native/check_sanitizers.py tests/native/check_valgrind.py

# The table of kernels; `make bench PEERS=DIRECTORY` compares with llama.cpp, built there first where it is not yet.
bench: $(VENV)/ready
	$(if $(PEERS),test -e $(PEERS)/libshoal_peer_ggml.so || sh benchmarks/peers/build.sh $(PEERS))
	$(BIN)/shoal bench kernels $(if $(PEERS),--peers $(PEERS))

# The built-in miniature anew (training/README.md): some two hours on two cores. Interrupted, the same command goes on.
train: $(TRAINED)/corpus/tokens.npy
	$(BIN)/python -m training.train $(TRAINED)/corpus $(TRAINED)/state
	rm -rf $(TRAINED)/miniature
	$(BIN)/python -m training.export $(TRAINED)/corpus $(TRAINED)/state $(TRAINED)/miniature

$(TRAINED)/corpus/tokenizer.json: $(VENV)/ready
	$(BIN)/python -m training.tokenizer $(TRAINED)/corpus

$(TRAINED)/corpus/tokens.npy: $(TRAINED)/corpus/tokenizer.json
	$(BIN)/python -m training.corpus $(TRAINED)/corpus --tokenizer $(TRAINED)/corpus

# Rebuilt when native sources or dependencies change; Python sources are used where they lie.
$(VENV)/ready: $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
