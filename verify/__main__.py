import os
import sys

# The products here are small or run on threads of their own. A second BLAS thread gains little on an idle machine and
# costs up to a hundredfold on a busy one, where the threads wait for each other. Set the variable to choose otherwise.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from verify.cli import main

for stream in (sys.stdout, sys.stderr):  # √ and τ in an ASCII terminal are a question mark, not a traceback
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")

sys.exit(main())
