def spawn(
    program: bytes,
    words: list[bytes],
    variables: list[bytes],
    streams: tuple[int, int, int],
    files: tuple[int, int] | None = None,
) -> tuple[int, int, object]: ...
def outcome(underway: object) -> int | None: ...
