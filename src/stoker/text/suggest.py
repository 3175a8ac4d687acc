"""What a mistyped word was meant to be."""

from __future__ import annotations


def nearest(word: str, known: list[str]) -> str:
    """The known word that is nearest to what was typed, or "" if none is near enough."""
    typed = word.lower().lstrip("-")
    best, best_cost = "", len(typed) // 2 + 1
    for candidate in known:
        bare = candidate.lstrip("-")
        if len(bare) == 1 < len(typed):
            continue
        # The beginning of a longer word is the likeliest slip of all.
        cost = 1 if typed and bare.startswith(typed) else _distance(typed, bare)
        if cost < best_cost:
            best, best_cost = candidate, cost
    return best


def _distance(a: str, b: str) -> int:
    """How many letters to insert, drop, change or swap to turn one word into the other."""
    a, b = a[:40], b[:40]
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, above = above, row
    return above[-1]
