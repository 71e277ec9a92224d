"""Without a GPU the Triton kernels run in Triton's interpreter, which is chosen when triton is first imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
