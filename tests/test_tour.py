r"""examples/tour.ipynb: its cells run, in order and in one namespace, and print what is stored in it.

After a change, run it anew (pip install nbconvert ipykernel):

    jupyter nbconvert --to notebook --inplace --execute --ExecutePreprocessor.record_timing=False examples/tour.ipynb
    jupyter nbconvert --to notebook --inplace --CoalesceStreamsPreprocessor.enabled=True \
        --ClearMetadataPreprocessor.enabled=True examples/tour.ipynb
"""

import contextlib
import importlib.util
import io
import json
import re
import sys
from pathlib import Path

import matplotlib

TOUR = Path(__file__).parents[1] / "examples" / "tour.ipynb"
CELLS = [cell for cell in json.loads(TOUR.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
NO_TORCH = "pip install 'associative-memory-verify[kernels]'"


def run(cell, names):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("".join(cell["source"]), f"tour.ipynb, {cell['id']}", "exec"), names)
    return printed.getvalue()


def stored(cell):
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


def figures(cell):
    return [data for output in cell["outputs"] for kind, data in output.get("data", {}).items() if "image" in kind]


def test_the_cells_print_what_is_stored():
    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = {}
    for cell in CELLS:
        printed, expected = run(cell, names), stored(cell)
        if NO_TORCH in printed and importlib.util.find_spec("torch") is None:
            before = printed.index("kernels.deltaformer needs torch")
            printed, expected = printed[:before], expected[:before]
        assert printed == expected, cell["id"]
        drawn = len(pyplot.get_fignums())
        pyplot.close("all")
        assert drawn == len(figures(cell)), cell["id"]


def test_without_torch_the_last_cell_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert NO_TORCH in run(CELLS[-1], {})


def test_what_is_stored_is_small_and_says_nothing_of_the_machine():
    whole = TOUR.read_text(encoding="utf-8")
    assert len(CELLS) == 10
    assert [cell["execution_count"] for cell in CELLS] == list(range(1, 11))
    assert all(stored(cell) or figures(cell) for cell in CELLS)
    assert all(not cell["metadata"] for cell in CELLS)
    assert {output["output_type"] for cell in CELLS for output in cell["outputs"]} == {"stream", "display_data"}
    assert all(output.get("name", "stdout") == "stdout" for cell in CELLS for output in cell["outputs"])
    assert [len(data) < 60_000 for cell in CELLS for data in figures(cell)] == [True]
    text = "".join(stored(cell) for cell in CELLS)
    assert not re.search(r"(?<![\w.])/\w+/|[A-Z]:\\|0x[0-9a-f]{6}|Traceback|Warning", text)
    assert not re.search(r"^\s*[%!]", "\n".join("".join(cell["source"]) for cell in CELLS), re.MULTILINE)
    assert "iopub" not in whole
