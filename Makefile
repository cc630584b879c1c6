# Two commands, each of which sets itself up on a fresh clone:
#   make run     open the sample project in the workbench
#   make test    run every check and test
# Further: make walk, make bench, make pages, make pictures, make clean. Only Python 3.11 or newer and pip are required.

VENV ?= .venv
PYTHON ?=
SAMPLE ?= sample_project
# Tests at a time. They mostly wait for other programs; each worker has machines and engines of its own.
WORKERS ?= 3

# An environment without bytecode makes every start of the program compile it again.
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONHOME
unexport PYTHONPATH

# The interpreter below a virtual environment can be gone: uninstalled, or upgraded away.
$(shell test -x $(VENV)/bin/python || rm -f $(VENV)/.installed-*)

.PHONY: run test check walk bench pages pictures clean

run: $(VENV)/.installed-train
	@PATH="$$(cd $(VENV)/bin && pwd):$$PATH" workbench-tui "$(SAMPLE)"

test: check
	@$(VENV)/bin/pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

check: $(VENV)/.installed-test
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# Random keys against the screens, many more than in `make test`. A failure names its seed.
walk: $(VENV)/.installed-test
	@WALK_KEYS="$${WALK_KEYS:-2000}" $(VENV)/bin/pytest tests/ui/test_key_walk.py --numprocesses=$(WORKERS) -o faulthandler_timeout=7200

bench: $(VENV)/.installed-test
	@failed=; for file in $$(grep -l '^if __name__ == "__main__"' benchmarks/*.py); do \
	    name=$$(basename "$$file" .py); echo "== $$name"; \
	    $(VENV)/bin/python -m "benchmarks.$$name" || failed="$$failed $$name"; \
	done; \
	if [ -n "$$failed" ]; then echo "over the limit:$$failed" >&2; exit 1; fi

# What is made from the code; tests look whether it is up to date.
pages: $(VENV)/.installed-test
	$(VENV)/bin/python -m docs.make_pages
	$(VENV)/bin/python -m tui_workbench.ui.commands.key_reference > docs/reference/keys.md
	$(VENV)/bin/python -m tui_workbench.config.reference > docs/reference/configuration-reference.md

# Real runs in a real terminal; needs gcc for the stand-in GPUs.
pictures: $(VENV)/.installed-test
	@PATH="$$(cd $(VENV)/bin && pwd):$$PATH" $(VENV)/bin/python -m docs.make_pictures

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The test extra holds all that the train extra does.
$(VENV)/.installed-test: pyproject.toml $(VENV)/bin/python
	@sh .ci/install $(VENV) test
	@touch $(VENV)/.installed-train $@

$(VENV)/.installed-train: pyproject.toml $(VENV)/bin/python
	@sh .ci/install $(VENV) train
	@touch $@

$(VENV)/bin/python:
	@sh .ci/make-environment $(VENV) "$(PYTHON)"
