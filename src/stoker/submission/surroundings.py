"""What a job takes along from where and when it is submitted: directory, environment, user."""

from __future__ import annotations

import os
import sys
import time

from stoker.errors import UsageError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from stoker.api.client import Client


def surroundings(
    left_out: Callable[[str], None] | None = None, cwd: str | None = None
) -> dict[str, Any]:
    """What the jobs of one submission share, in the directory of now where no other is named.

    `left_out` is told what can't be taken along.
    """
    return {
        "cwd": current_directory() if cwd is None else cwd,
        "env": submitted_environment(left_out),
        "user": user_name(),
        "umask": own_umask(),
    }


def new_token() -> str:
    """A submission that is cut off is repeated with the same token, and taken once."""
    return os.urandom(16).hex()


def current_directory() -> str:
    """The directory of now."""
    try:
        here = os.getcwd()
    except OSError:
        raise UsageError("this directory no longer exists", "go to another, or use --cwd") from None
    try:
        here.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "this directory's name is not valid UTF-8", "go to another, or use --cwd"
        ) from None
    return here


def submitted_environment(left_out: Callable[[str], None] | None = None) -> dict[str, str]:
    """The environment of now, without Stoker's own, and the variables that JSON can't carry."""
    environment = dict(os.environ)
    # A name is all that is compared here, since this is on the path of every `stoker add`.
    if sys.prefix != sys.base_prefix and _own_programs() in environment.get("PATH", ""):
        from stoker.api.paths import Home
        from stoker.submission.own_environment import path_for_jobs

        commands = os.path.join(Home.from_environment().root, "bin")
        active = environment.get("VIRTUAL_ENV")
        environment["PATH"] = path_for_jobs(environment["PATH"], active, commands)
    try:
        "".join(environment).encode()
        "".join(environment.values()).encode()
        return environment
    except UnicodeEncodeError:
        pass
    for key, value in list(environment.items()):
        try:
            (key + value).encode()
        except UnicodeEncodeError:
            del environment[key]
            if left_out is not None:
                left_out(key)
    return environment


def _own_programs() -> str:
    return f"/{os.path.basename(sys.prefix)}/bin"


def user_name() -> str:
    """Who submits, by the system's own book."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def own_umask() -> int | None:
    """The umask of this process; None where the kernel does not say.

    To ask for it with `umask(2)` is to change it, for the files of other threads as well.
    """
    try:
        status = os.open("/proc/self/status", os.O_RDONLY)  # `open` would load a codec for it.
        try:
            found = os.read(status, 4096).partition(b"Umask:")[2].split(None, 1)
        finally:
            os.close(status)
    except OSError:
        return None
    return int(found[0], 8) if found else None


# --- the project ----------------------------------------------------------------------------------

PROJECT_FILE = "stoker.toml"


def project_file(start: str) -> str | None:
    """The nearest stoker.toml from a directory upwards."""
    for directory in _upwards(start):
        path = os.path.join(directory, PROJECT_FILE)
        if os.path.isfile(path) and _is_trusted(path, directory):
            return path
    return None


def _upwards(directory: str) -> Iterator[str]:
    """A directory and those above it: up to the home, on one file system."""
    home = os.path.expanduser("~")
    while True:
        yield directory
        parent = os.path.dirname(directory)
        if directory in (home, parent) or _device(parent) != _device(directory):
            return
        directory = parent


def _is_trusted(path: str, directory: str) -> bool:
    """Not so what another user has put where everybody may, such as /tmp."""
    owner, mode = os.stat(path).st_uid, os.stat(directory).st_mode
    return owner in (0, os.getuid()) or not mode & 0o002


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def with_project(
    said: dict[str, Any],
    here: str,
    front_end: str,
    words: Sequence[str] = (),
    fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The values of a job's options, with the defaults of the project that it is in beneath.

    `fields` are what else was said of it, as fields of the message.
    """
    path = project_file(os.path.normpath(os.path.join(here, said.get("cwd") or "")))
    if path is None:
        return said
    from stoker.submission.project import with_defaults  # Few have such a file.

    return with_defaults(said, path, front_end, words, fields or {})


# --- paths ----------------------------------------------------------------------------------------


def absolute_paths(fields: dict[str, Any], here: str) -> str:
    """Make the paths of a job absolute, output files from its own directory; that directory."""
    cwd = os.path.normpath(os.path.join(here, fields.get("cwd", "")))
    if "cwd" in fields:
        fields["cwd"] = cwd
    for key in ("out", "err"):
        if key in fields:
            fields[key] = os.path.normpath(os.path.join(cwd, fields[key]))
    return cwd


def usable_paths(
    fields: dict[str, Any], here: str, may_lack: tuple[str, ...] = (), *, of_point: bool = False
) -> str:
    """The same; refused at once where the job could not use them.

    `may_lack`: the files whose directories are made, should they be missing.
    """
    cwd = absolute_paths(fields, here)
    if not os.path.isdir(cwd):
        from stoker.submission.rules import check_directory

        check_directory(cwd)
    if not os.access(cwd, os.X_OK):
        raise UsageError(f"the directory {cwd} can't be entered", "name another with --cwd")
    for key in ("out", "err"):
        if key in fields:
            _require_writable(key, fields[key], key in may_lack, of_point)
    return cwd


def _require_writable(key: str, path: str, may_lack: bool, of_point: bool) -> None:
    from stoker.output_files import existing_directory, known_directory
    from stoker.submission.rules import check_output

    if may_lack and not os.path.lexists(known_directory(path)):
        return
    check_output(path, f"--{key}", of_point=of_point)
    if not os.access(path if os.path.exists(path) else existing_directory(path), os.W_OK):
        raise UsageError(f"--{key}: {path} can't be written", "name another file")


# --- programs -------------------------------------------------------------------------------------


def command_fields(words: list[str]) -> dict[str, Any]:
    """One word is for the login shell, several are run as they are."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the command's word {quoted(word)} is not valid UTF-8",
                "put it into a script, and queue that",
            ) from None
    if len(words) == 1:
        if not words[0].strip():
            raise UsageError("the command is empty", "write a command after --")
        return {"shell": words[0]}
    if not words[0]:
        raise UsageError("the command's first word is empty", "write a program's name after --")
    return {"argv": words}


def is_for_cluster(fields: Mapping[str, Any]) -> bool:
    """Whether a request says that the job is the cluster's, whose nodes may have other programs."""
    return fields.get("executor") == "slurm" or "slurm" in fields


def find_program(word: str, cwd: str, path: str | None) -> str | None:
    """The file that a command's first word means, as seen from a directory with a PATH."""
    if "/" in word:
        candidates = [word]
    else:
        candidates = [os.path.join(part, word) for part in (path or os.defpath).split(":")]
    for candidate in candidates:
        full = os.path.join(cwd, candidate)
        if os.access(full, os.X_OK) and not os.path.isdir(full):
            return full
    return None


def require_program(word: str, cwd: str, path: str | None) -> None:
    """Refuse a command that can't be found: the job would fail hours later for the same reason."""
    if find_program(word, cwd, path) is not None:
        return
    full = os.path.join(cwd, word)
    if "/" in word and os.path.isdir(full):
        raise UsageError(f"{word} is a directory", "name a program in it")
    if os.path.isfile(full):
        if "/" in word:
            raise UsageError(f"{word} is not executable", f"run: chmod +x {word}")
        raise UsageError(
            f"the command {quoted(word)} was not found",
            f"for the file here write ./{word}",
        )
    name, equals, _ = word.partition("=")
    if equals and name.isidentifier():
        raise UsageError(
            f"the command {quoted(word)} was not found",
            f"to set a variable write --env {word} in front of the command",
        )
    if " " in word.strip():
        raise UsageError(
            f"the command {quoted(word)} was not found: with more words after it, it is one word",
            "quote the whole command, or none of it",
        )
    raise UsageError(
        f"the command {quoted(word)} was not found",
        "check its spelling and PATH; shell syntax goes in quotes, as one word",
    )


def submit(client: Client, request: dict[str, Any], **more: Any) -> int:
    """Send a submission of one job, and give the job's id."""
    resolve_requirements(client, request["jobs"][0])
    take_code(client, request["jobs"], request)
    job_id: int = client.call("submit", **request, **more)["ids"][0]
    return job_id


def take_code(
    client: Client,
    jobs: list[dict[str, Any]],
    request: dict[str, Any],
    example: dict[str, Any] | None = None,
) -> None:
    """Say of which commit the code of jobs is, and have those with --freeze run it as it is now.

    Where a job is what many have in common, `example` is what one of them has for itself.
    """
    _refuse_unless_told(client, jobs, request["cwd"])
    note_commits(jobs, request)
    if any("freeze" in job for job in jobs):
        from stoker.submission.freezing import freeze_for

        freeze_for(client, jobs, request, example or {})


def _refuse_unless_told(client: Client, jobs: list[dict[str, Any]], here: str) -> None:
    """Refuse jobs that a project has send messages to nowhere, before anything is done."""
    directories = {job.get("cwd") or here for job in jobs if job.get("notify")}
    paths = [path for path in map(project_file, directories) if path is not None]
    if not paths or client.call("config_get", name="notify")["settings"][0]["value"]:
        return
    from stoker.submission.project import read  # Few have such a file.

    for path in paths:
        if read(path).get("notify"):
            raise UsageError(
                f"{path}: notify has no address to send to",
                "set one first: stoker config set notify URL; or add --no-notify",
            )


def note_commits(jobs: list[dict[str, Any]], request: dict[str, Any]) -> None:
    """Say in a request which repository the directories of its jobs are in, and its commit."""
    found = {}
    at_ns = time.time_ns()
    for directory in dict.fromkeys(job.get("cwd") or request["cwd"] for job in jobs):
        for above in _upwards(os.path.realpath(directory)):
            if os.path.lexists(f"{above}/.git"):
                from stoker.submission.repositories import commit_of  # Only where there is one.

                commit = commit_of(above)
                if commit is not None:
                    found[directory] = [above, commit, at_ns]
                break
    request.pop("code", None)
    if found:
        request["code"] = found


def resolve_requirements(client: Client, job: dict[str, Any]) -> None:
    """Ranges and `last` mean what they mean now; a job depends on other jobs by number."""
    for key in ("after", "after_any"):
        required = job.get(key)
        if required and not all(one.isdigit() for one in required):
            found = client.call("list", select={"ids": required}, all=True)["jobs"]
            job[key] = [str(one["id"]) for one in found]
