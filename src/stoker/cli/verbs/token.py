"""`stoker token`: tokens with which scripts may use the HTTP api."""

from __future__ import annotations

from stoker import quantities
from stoker.api.paths import Home
from stoker.cli.options import JSON, Args, Option, Positional, Verb, print_json
from stoker.errors import UsageError
from stoker.quantities import plain
from stoker.text.terminal import Column, out, say, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.api.tokens import Access, Grant


def _access() -> Access:
    from stoker.api.tokens import Access

    return Access(Home.from_environment())


def create(args: Args) -> None:
    """Make a token and print it: it is shown this once."""
    lasts_ms = args["lasts"]
    secret, grant = _access().new_token(
        args["name"], read_only=args["read_only"], lasts_ms=lasts_ms
    )
    if args["json"]:
        print_json({**_described(grant), "token": secret})
    else:
        out(f"{secret}\n")
        say("keep it now: it is not shown again")


def ls(args: Args) -> None:
    """List the tokens and the browsers that were let in."""
    grants = [grant for grant in _access().grants() if grant.kind != "key"]
    if args["json"]:
        print_json({"tokens": [_described(grant) for grant in grants]})
    elif not grants:
        say("no tokens; `stoker token create NAME` makes one")
    else:
        out(_as_table(grants))


def revoke(args: Args) -> None:
    """Make tokens, or browsers, good for nothing at once."""
    if args["all"] == bool(args["token"]):
        raise UsageError("name what is to be revoked", "give a name, an id, or --all")
    access = _access()
    gone = access.revoke_all() if args["all"] else access.revoke(args["token"])
    named = [grant for grant in gone if grant.kind == "token" or grant.id in args["token"]]
    shown = [grant for grant in gone if grant.kind != "key"] if args["all"] else named
    also = 0 if args["all"] else len(gone) - len(named)
    rest = f", and {also} browser{'s' * (also != 1)} let in by it" if also else ""
    names = ", ".join(grant.name for grant in shown)
    say(f"revoked {names}{rest}" if shown else "nothing was there")


def _described(grant: Grant) -> dict[str, Any]:
    from stoker.text.jobs import iso_times

    keys = ("id", "kind", "name", "read_only", "created_at_ms", "expires_at_ms")
    return iso_times({key: getattr(grant, key) for key in keys})


def _as_table(grants: list[Grant]) -> str:
    from stoker.text import local_moment_text
    from stoker.text.jobs import now_ms

    now = now_ms()

    def moment(at_ms: int | None) -> str:
        return "" if at_ms is None else local_moment_text(at_ms, now)

    columns = (
        Column("ID", lambda grant: grant.id),
        Column("KIND", lambda grant: grant.kind),
        Column("NAME", lambda grant: grant.name, "bold", least=8),
        Column("MAY", lambda grant: "read" if grant.read_only else "read, write"),
        Column("MADE", lambda grant: moment(grant.created_at_ms)),
        Column("ENDS", lambda grant: moment(grant.expires_at_ms)),
    )
    return table(columns, grants)


VERB = Verb(
    "token",
    "create, list and revoke tokens for scripts that use the HTTP API",
    verbs=(
        Verb(
            "token create", "create a token and print it; it is shown only once",
            run=create,
            positionals=(Positional("NAME", "what it is for", plain),),
            options=(
                Option("read-only", "the token gives read-only access"),
                Option("lasts", "how long it is valid (default: for ever)", "30d",
                       quantities.duration_ms),
                JSON,
            ),
            examples=(("stoker token create grafana --read-only", "for a script that only reads"),),
        ),
        Verb(
            "token ls", "list the tokens and the logged-in browsers",
            run=ls, options=(JSON,),
            examples=(("stoker token ls", "names, never the tokens themselves"),),
        ),
        Verb(
            "token revoke", "revoke tokens, or log browsers out, at once",
            run=revoke,
            positionals=(Positional("TOKEN", "a token's name, or an id", plain, many=True,
                                    optional=True),),
            options=(Option("all", "all tokens and browsers"),),
            examples=(("stoker token revoke grafana", "by its name"),
                      ("stoker token revoke --all", "all scripts and browsers need a new one")),
        ),
    ),
    examples=(
        ("stoker token create ci", "a token with full access"),
        ("stoker token ls", "list them"),
    ),
)  # fmt: skip
