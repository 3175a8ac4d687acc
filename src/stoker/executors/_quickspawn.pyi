def spawn(
    program: bytes,
    words: list[bytes],
    variables: list[bytes],
    streams: tuple[int, int, int],
    files: tuple[int, int] | None = None,
    note: tuple[int, bytes] | None = None,
    wait: bool = False,
) -> tuple[int, int, object]: ...
def outcome(underway: object) -> int | None: ...
