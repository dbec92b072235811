# `make run` and `make test` set everything up on a fresh machine: environment, build, then the job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= build/training
NATIVE := $(wildcard src/shoal/native/*) CMakeLists.txt pyproject.toml constraints.txt

# A hundred processes of the suite would each compile what they import.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test check bench train clean

run: $(VENV)/ready
	$(BIN)/shoal generate --prompt "The capital of France is" --max-new-tokens 24
	$(BIN)/shoal generate --chat --prompt "What is the capital of Japan?"

test: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

check: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist worksteal -q
	$(BIN)/python -m pytest -q tests/native/check_sanitizers.py tests/native/check_valgrind.py

# The table of kernels; `make bench PEERS=DIRECTORY` compares with llama.cpp, built there first where it is not yet.
bench: $(VENV)/ready
	$(if $(PEERS),test -e $(PEERS)/libshoal_peer_ggml.so || sh benchmarks/peers/build.sh $(PEERS))
	$(BIN)/shoal bench kernels $(if $(PEERS),--peers $(PEERS))

# The built-in miniature anew (training/README.md): under two hours on two cores. Stopped, the same command goes on.
train: $(OUT)/corpus/tokenizer.json
	$(BIN)/python -m training.corpus $(OUT)/corpus --tokenizer $(OUT)/corpus
	$(BIN)/python -m training.train $(OUT)/corpus $(OUT)/state --threads 2
	rm -rf $(OUT)/miniature
	$(BIN)/python -m training.export $(OUT)/corpus $(OUT)/state $(OUT)/miniature

$(OUT)/corpus/tokenizer.json: | $(VENV)/ready
	$(BIN)/python -m training.tokenizer $(OUT)/corpus

# Rebuilt when native sources or dependencies change; Python sources are used where they lie.
$(VENV)/ready: $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
