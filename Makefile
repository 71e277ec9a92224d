# `make report` and `make test` set up everything they need; the rest is for people who work on the project.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
RUN := $(VENV)/bin/python

.PHONY: report test bench lint clean

report: $(VENV)/core.stamp
	$(RUN) -m verify report

test: $(VENV)/test.stamp lint
	$(RUN) -m pytest

lint: $(VENV)/test.stamp
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: $(VENV)/core.stamp
	$(RUN) -m verify bench

$(VENV)/core.stamp: pyproject.toml constraints.txt
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(RUN) -c 'import sys; sys.exit("Python 3.11 or newer is needed; say which with PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PIP) --editable .
	@touch $@

$(VENV)/test.stamp: $(VENV)/core.stamp
	$(PIP) --editable '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info
