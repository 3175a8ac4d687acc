"""A stand-in for a training script: it prints its GPUs and its progress, and ends as it is told."""

import argparse
import os
import sys
import time

STEPS_A_SECOND = 2


def main() -> int:
    """Pretend to train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to train")
    parser.add_argument("--lr", type=float, default=0.1, help="the learning rate")
    parser.add_argument("--fail", type=int, default=0, metavar="CODE", help="end with this code")
    args = parser.parse_args()

    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    print(f"job {os.environ.get('STOKER_JOB_ID', '-')} sees GPUs: {gpus or 'none'}", flush=True)
    steps = max(1, round(args.seconds * STEPS_A_SECOND))
    loss = 2.0
    for step in range(1, steps + 1):
        time.sleep(args.seconds / steps)
        loss *= 1 - min(args.lr, 0.5)
        if args.fail and step > steps // 2:
            print(f"step {step}/{steps}: the loss is not a number", file=sys.stderr)
            return int(args.fail)
        print(f"step {step}/{steps}: loss {loss:.4f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
