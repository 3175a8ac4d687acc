"""What `stoker demo` trains: nothing. It takes memory on stand-in GPUs and reports a loss.

It is copied into the directory of the demo and runs there by itself, without Stoker.
"""

from __future__ import annotations

import argparse
import math
import os
import time

EPOCH_S = {16: 1.25, 32: 1.1, 64: 1.0}  # by batch size
PEAK_MIB = 7 * 1024
USE_PERCENT = 30
LOADING_S = 0.3


def allocate(mib: int) -> None:
    """Have so much memory on each GPU of this job; see stoker/inventory/stand_in.py."""
    for gpu in filter(None, os.environ["CUDA_VISIBLE_DEVICES"].split(",")):
        path = os.path.join(os.environ["STOKER_STAND_IN_GPUS"], gpu, str(os.getpid()))
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.write(f"{mib} {USE_PERCENT}")
        os.rename(f"{path}.new", path)


def note(word: str) -> None:
    """Keep a record of its own, by which the demo checks what Stoker says."""
    with open("records.txt", "a", encoding="ascii") as file:
        file.write(f"{os.environ['STOKER_JOB_ID']} {word}\n")


def main() -> None:
    """Pretend to train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--bs", type=int, default=32, choices=EPOCH_S)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    note("began")
    # Some values are better than others, so that a sweep has something to find.
    worst = abs(math.log10(args.lr / 0.1)) + abs(math.log2(args.bs / 32)) / 4
    allocate(PEAK_MIB // 2)
    time.sleep(LOADING_S)
    allocate(PEAK_MIB)
    for epoch in range(1, args.epochs + 1):
        time.sleep(EPOCH_S[args.bs])
        loss = (0.2 + worst / 2) + 2 * math.exp(-epoch / (1 + worst))
        print(f"epoch {epoch}/{args.epochs}  loss {loss:.3f}", flush=True)
    note("ended")


if __name__ == "__main__":
    main()
