"""One file a command: a frozen dataclass `Options` and `run(options, session) -> Finding`.

A file here imports nothing heavy at its top (no numpy, sympy, matplotlib, torch): `--help` reads all of them.
"""
