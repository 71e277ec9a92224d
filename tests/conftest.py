"""One BLAS thread a test process, as in the program: tests run side by side."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
