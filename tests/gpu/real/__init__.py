"""The acceptance suite for a machine with a real NVIDIA GPU: `python3 -m tests.gpu.real OUT`.

Each check compares what the workbench reports with `nvidia-smi`, which the suite queries itself at the same time. The
suite needs no network, Docker, pytest or administrator. With `--stand-ins` it runs against the GPUs of `gpu/standin`,
which shows that the suite works, and proves nothing about GPUs.
"""
