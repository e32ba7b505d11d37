# One door to everything: `make demo` shows it, `make test` checks it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup demo docs wheel federation test faults mutants checker lint bench bench-ledger bench-secagg clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,flower]'
	touch $@

demo: setup
	$(BIN)/sordino run recipes/best/demo.toml

# what `pip install sordino` brings today, in an environment of its own, away from the checkout (torch alone is pinned)
wheel: setup
	rm -rf $(VENV)/bare && $(PYTHON) -m venv $(VENV)/bare
	$(BIN)/hatchling build -t wheel -d $(VENV)/bare/wheel
	grep '^torch==' constraints.txt > $(VENV)/bare/torch.txt
	$(VENV)/bare/bin/pip install --quiet --constraint $(VENV)/bare/torch.txt $(VENV)/bare/wheel/*.whl
	cd $(VENV)/bare && bin/sordino run --set run.rounds=2 --out run && bin/sordino certificate --check run/public

federation: setup
	$(BIN)/sordino federation demo

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup lint
	$(BIN)/pytest -n 2

# the site is built offline and strict: a page that is missing, or a link that leads nowhere, fails
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

faults: setup
	$(BIN)/pytest -m faults tests/federation

mutants: setup
	$(BIN)/python -m tests.mutants

checker: setup
	$(BIN)/python -m tests.aggregate.secure.checker --write docs/secure-aggregation.md

bench: setup
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/dp_sgd.py

bench-ledger: setup
	$(BIN)/python benchmarks/ledger_scale.py

bench-secagg: setup
	$(BIN)/python benchmarks/secagg.py

clean:
	rm -rf site $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
