"""A program that uses the Python library: `library_client.py RECORDS OUTCOME PREFIX CALLS MS WARM`.

It writes what became of each future to OUTCOME: its token, and the value or the error.
"""

from __future__ import annotations

import os
import sys

from stoker import Executor


def call(records: str, token: str, ms: int, value: int) -> int:
    """What each job does: it leaves its record, and gives twice the value."""
    import time

    from crash.torture.records import OwnRecord

    own = OwnRecord(records, token)
    time.sleep(ms / 1000)
    own.end()
    return value * 2


def main() -> None:
    """Make the calls, and wait for all."""
    records, outcome, prefix, calls, ms, warm = sys.argv[1:]
    tokens = [f"{prefix}-{number}" for number in range(int(calls))]
    report = os.open(outcome, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(token: str, text: str) -> None:
        os.write(report, f"{token} {text}".replace("\n", " ")[:400].encode() + b"\n")

    try:
        executor = Executor(warm=warm == "warm", group=prefix)
    except Exception as error:
        for token in tokens:
            tell(token, f"refused {error!r}")
        raise
    with executor:
        futures = {}
        for number, token in enumerate(tokens):
            try:
                futures[token] = executor.submit(call, records, token, int(ms), number)
            except Exception as error:
                tell(token, f"refused {error!r}")
        for token, future in futures.items():
            try:
                tell(token, f"is {future.result()}")
            except Exception as error:
                tell(token, f"raised {error!r}")


if __name__ == "__main__":
    main()
