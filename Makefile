# Two commands do everything on a fresh machine with Python >= 3.11, Java >= 17 and make:
#   make verify    the main job: specs explored, proved and held against the real implementation
#   make test      the whole suite (integration on Docker where an engine is there)
PYTHON ?= python3
VENV ?= .venv
UV ?= uv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Integration runs as one group on one worker, beside the properties on the other core. Commands are
# started by the hundred: they read what was compiled, also where Python is told to write none.
COMPILED := $(BIN)/python -m compileall -q spec impl
PYTEST := $(BIN)/python -m pytest -n 2

.PHONY: verify test test-long lint format docs pages docker-images lock clean

verify: $(STAMP)
	@$(BIN)/herdproof verify

test: lint
	@$(COMPILED)
	@$(PYTEST)

test-long: lint
	@$(COMPILED)
	@$(PYTEST) -m "long or not long" --timeout 3600

lint: $(STAMP)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { echo "the files above are not formatted: run 'make format'"; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/interrogate --quiet properties integration || { $(BIN)/interrogate -vv properties integration | grep MISSED; exit 1; }

format: $(STAMP)
	@$(BIN)/ruff check --quiet --fix-only && $(BIN)/ruff format

# What was verified, with every counterexample as a story: from a run, never by hand.
docs: $(STAMP)
	@{ sed '/^```/,$$d' docs/verified.md; echo '```'; $(BIN)/herdproof verify --stories; echo '```'; } \
	  > docs/.verified.md && mv docs/.verified.md docs/verified.md

# The drawn and the generated parts of the pages, from the code; and lines of prose to their width.
pages: $(STAMP)
	@$(BIN)/python docs/draw_architecture.py
	@$(BIN)/python -m properties.pipeline.pipeline_page
	@$(BIN)/python docs/reflow.py

docker-images: $(STAMP)
	@$(BIN)/python -m integration.docker.images

# The lock holds exact versions and hashes, and no address of any index.
lock:
	@$(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" --quiet --output-file requirements.lock

clean:
	-@docker image ls --quiet --filter 'reference=herdproof-*' 2>/dev/null | xargs -r docker image rm --force
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .herdproof

$(STAMP): requirements.lock pyproject.toml .ci/setup
	@bash .ci/setup $(VENV) $(PYTHON)
	@touch $@
