# The targets create the virtual environment and install the packages that they need:
#   make run        open the sample project in the workbench
#   make dev        open the sample project with the development console of Textual, which `make console` shows
#   make check      run the checks: ruff, mypy, lint-imports, shellcheck, limits of reading, private names in tests
#   make test       run the checks, and the tests that need only Python and git
#   make test-all   run `make test`, then all other tests; those of missing programs are skipped
#   make test-ssh   run the tests with the mark `ssh`; other marks are in tests/rings.py
#   make test-portable  run tests with the features of Linux removed, as root
#   make hooks      let git run ruff and mypy before each commit
#   make soak       kill processes at random moments, for longer than in `make test-all`
#   make walk       press random keys on the screens
#   make mutations  damage the files of a run at random and read them
#   make bench      run the benchmarks and write docs/performance.md
#   make gpu        check the workbench on a real NVIDIA GPU
#   make pages      generate the pages in docs/reference
#   make pictures   generate the pictures of the documentation
#   make snapshots  write the pictures of screens that tests compare; look at each before you commit it
#   make lock       write the lock files after a change of pyproject.toml; with UPGRADE=1, to the newest versions
#   make release    build and test the archives of the version; with DRY_RUN=1, also of an unreleased version
#   make clean      remove the virtual environment, caches and builds
# Required: Python 3.11 or newer, with pip.

VENV ?= .venv
PYTHON ?=
SAMPLE ?= sample_project
# Number of test files that run at the same time. Each worker starts its own machines and Docker engines.
WORKERS ?= 5
FIRST_WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) '*' 2)

# Without bytecode, every start of the program would compile it again.
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONHOME
unexport PYTHONPATH

# Install again if the base interpreter of the virtual environment was removed or upgraded.
$(shell test -x $(VENV)/bin/python || rm -f $(VENV)/.installed-*)

.PHONY: run dev console hooks check check-lint check-mypy check-collection check-mac test test-all test-portable soak walk mutations bench gpu gpu-wheels gpu-rehearsal pages pictures snapshots lock release clean

run: $(VENV)/.installed-train
	@PATH="$$(cd $(VENV)/bin && pwd):$$PATH" workbench-tui "$(SAMPLE)"

# Textual then sends its log, and what the code prints, to the console on this machine.
dev: $(VENV)/.installed-dev
	@echo "Run 'make console' in another terminal for the log of the screens."
	@PATH="$$(cd $(VENV)/bin && pwd):$$PATH" textual run --dev --command 'workbench-tui "$(SAMPLE)"'

console: $(VENV)/.installed-dev
	@$(VENV)/bin/textual console

hooks: $(VENV)/.installed-test $(VENV)/.installed-dev
	@$(VENV)/bin/pre-commit install

# Run pytest with the command $(1) and $(2) workers. With RERUN=1, failed tests run a second time, one after the other.
# The output of the first time stays visible, and a test that fails twice is an error. Thousands of tests start other
# programs, so on a busy machine one may be late.
run_tests = $(1) --numprocesses=$(2) --dist=loadfile --no-loadscope-reorder || \
	{ test $$? -eq 1 && test -n "$(RERUN)" && echo "The tests that failed run again:" && $(1) --last-failed; }

# The parts of `make check` run at the same time.
check: $(VENV)/.installed-test
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-mypy check-collection check-lint

check-mypy: $(VENV)/.installed-test
	$(VENV)/bin/mypy

# Each test file can be imported. This also compiles them once; otherwise each worker of `make test` would do so.
check-collection: $(VENV)/.installed-test
	@echo "$(VENV)/bin/pytest --collect-only"
	@shown=$$($(VENV)/bin/pytest --collect-only) || { printf '%s\n' "$$shown"; exit 1; }

# The types on macOS, with an own cache: mypy checks everything again if the cache is of another platform.
check-mac: $(VENV)/.installed-test
	$(VENV)/bin/mypy --platform darwin --cache-dir .mypy_cache/mac -p tui_workbench -p workbench -p workbench_children -p azureml

check-lint: $(VENV)/.installed-test
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m tests.bounded_reading
	$(VENV)/bin/python -m tests.compared_texts
	$(VENV)/bin/python -m tests.private_names
	find tui_workbench '(' -name '*.sh' -o -name '*.bash' ')' -exec $(VENV)/bin/shellcheck {} +

test: check
	@$(call run_tests,$(VENV)/bin/pytest -m first --durations=10,$(FIRST_WORKERS))

test-all: test check-mac
	@$(call run_tests,$(VENV)/bin/pytest -m "not first" --durations=20,$(WORKERS))
	@if test "$$(id -u)" = 0; then $(MAKE) --no-print-directory test-portable; \
	else echo "Not run, because they need root: the tests with the features of Linux removed (make test-portable)."; fi

test-%: $(VENV)/.installed-test
	@$(call run_tests,$(VENV)/bin/pytest -m "$*",$(WORKERS))

# Tests without /proc, /dev/shm, the tools of GNU and the functions of Python that only Linux has: runs on this machine
# and over SSH, and some files for each other part that depends on the system. `tests/portable/run.sh` explains how.
PORTABLE = tests/core tests/faults/test_processes.py tests/runs/test_canceling.py tests/runs/test_resuming.py \
	tests/targets/local tests/targets/remote/test_remote.py tests/targets/ssh/test_ssh_host.py \
	tests/targets/ssh/test_ssh_link.py tests/targets/hosts/test_host.py tests/targets/hosts/test_processes.py \
	tests/targets/hosts/test_supervisor.py tests/targets/test_conformance.py \
	tests/targets/docker/test_docker_socket.py tests/targets/hosts/test_secrets.py tests/runs/notify/test_failures.py \
	tests/runs/snapshots/test_snapshot.py tests/runs/snapshots/test_spare.py tests/runs/snapshots/test_restore.py \
	tests/runs/index/test_index.py tests/cli/test_history.py tests/test_serve.py tests/ui/editor \
	tests/ui/main/test_external_editor.py tests/ui/terminal/test_clipboard.py tests/terminal/test_main_screen.py
test-portable: $(VENV)/.installed-test
	@$(call run_tests,tests/portable/run.sh $(VENV)/bin/pytest -m "not linux" \
		-k "(not docker or docker_socket) and not shellless and not slurm and not cluster" $(PORTABLE),$(WORKERS))

# SOAK is how many times longer the tests are. A failure shows its seed or its moment.
soak: $(VENV)/.installed-test
	@SOAK="$${SOAK:-10}" $(VENV)/bin/pytest -m soak --numprocesses=$(WORKERS) --dist=loadfile -o timeout=0 -o faulthandler_timeout=7200

# Many more random keys than in `make test`. A failure shows its seed.
walk: $(VENV)/.installed-test
	@WALK_KEYS="$${WALK_KEYS:-2000}" $(VENV)/bin/pytest tests/ui/test_key_walk.py --numprocesses=$(WORKERS) -o faulthandler_timeout=7200

# Many more damaged files than in `make test`. A failure is shrunk, and shows what was changed.
mutations: $(VENV)/.installed-test
	@MUTATIONS="$${MUTATIONS:-20000}" $(VENV)/bin/pytest tests/faults/test_mutated_run.py -o faulthandler_timeout=90000

bench: $(VENV)/.installed-test
	@$(VENV)/bin/python -m benchmarks

# GPU_PYTHON is an interpreter with a CUDA build of PyTorch; it runs the scripts. A machine without network needs only
# this repository, the folder that `make gpu-wheels` makes elsewhere, and
# `python3 -m tests.gpu.real OUT --wheels FOLDER`.
GPU_PYTHON ?= python3
gpu: $(VENV)/.installed-test
	@out=$$(mktemp -d) && $(VENV)/bin/python -m tests.gpu.real.suite "$$out" "$$(command -v $(GPU_PYTHON))"; code=$$?; \
	echo "report: $$out"; [ "$$code" -ne 0 ] || cp "$$out/proved-on.md" docs/reference/; exit "$$code"

# WHEELS_FOR is the version of Python on the GPU machine.
WHEELS ?= gpu-wheels
WHEELS_FOR ?= 3.12
gpu-wheels: $(VENV)/.installed-test
	$(VENV)/bin/python -m tests.gpu.real.wheels "$(WHEELS)" "$(WHEELS_FOR)"

gpu-rehearsal: $(VENV)/.installed-test
	@out=$$(mktemp -d) && $(VENV)/bin/python -m tests.gpu.real.rehearsal "$$out"; code=$$?; echo "report: $$out"; exit "$$code"

# Tests check that these pages match the code.
pages: $(VENV)/.installed-test
	$(VENV)/bin/python -m docs.make_pages
	$(VENV)/bin/python -m tui_workbench.ui.commands.key_reference > docs/reference/keys.md
	$(VENV)/bin/python -m tui_workbench.config.reference > docs/reference/configuration-reference.md

# Executes runs in a terminal. The stand-in GPUs need gcc.
pictures: $(VENV)/.installed-test
	@PATH="$$(cd $(VENV)/bin && pwd):$$PATH" $(VENV)/bin/python -m docs.make_pictures

snapshots: $(VENV)/.installed-test
	@WRITE_SNAPSHOTS=1 $(VENV)/bin/pytest tests/ui/snapshots $(if $(ONLY),-k "$(ONLY)")

lock: $(VENV)/.installed-train
	@sh .ci/lock $(VENV) $(if $(UPGRADE),--upgrade)

release: $(VENV)/.installed-test
	@sh .ci/release $(VENV) $(if $(DRY_RUN),--dry-run)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The extra `test` includes the packages of the extra `train`.
$(VENV)/.installed-test: pyproject.toml .ci/locked/test.txt $(VENV)/bin/python
	@sh .ci/install $(VENV) test
	@touch $(VENV)/.installed-train $@

$(VENV)/.installed-train: pyproject.toml .ci/locked/train.txt $(VENV)/bin/python
	@sh .ci/install $(VENV) train
	@touch $@

$(VENV)/.installed-dev: pyproject.toml .ci/locked/dev.txt $(VENV)/bin/python
	@sh .ci/install $(VENV) dev
	@touch $(VENV)/.installed-train $@

$(VENV)/bin/python:
	@sh .ci/make-environment $(VENV) "$(PYTHON)"
