"""`stoker completion`: a script that completes verbs and options in a shell."""

from __future__ import annotations

from stoker.cli.options import Args, Option, Positional, Verb, flags_of
from stoker.cli.verbs import all_verbs
from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.text.terminal import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.cli.options import AnyOption, ByFlag

_SHELLS = ("bash", "zsh", "fish")


def completion(args: Args) -> None:
    """Print the script for a shell, or what it asks for while a user types."""
    shell = args["shell"]
    if args["offer"] is not None:
        from stoker.cli.offered import offered

        out("".join(f"{word}\t{about}\n" for word, about in offered(args["offer"])))
        return
    if shell is None:
        raise UsageError("stoker completion needs SHELL", f"e.g. {VERB.examples[0][0]}")
    if shell not in _SHELLS:
        raise UsageError(f"there is no completion for {quoted(shell)}", "bash, zsh or fish")
    out({"bash": bash, "zsh": zsh, "fish": fish}[shell]())


_KINDS = ("jobs", "filters", "names", "groups", "sweeps", "settings", "gpus")
# By the placeholder of an option or a positional: what the daemon knows that may stand there.
_OFFERS = {"FILTER": "filters", "ID": "jobs", "ID,...": "jobs", "GROUP": "groups", "GPU": "gpus",
           "0,1": "gpus", "3,2": "gpus"}  # fmt: skip


def _kind(text: str) -> str:
    if text not in _KINDS:
        raise UsageError(f"{quoted(text)} can't be offered", f"one of {', '.join(_KINDS)}")
    return text


def _offer(verb: Verb) -> str:
    """The kind of words that the daemon knows for a verb's first positional, or ""."""
    metavar = verb.positionals[0].metavar if verb.positionals else ""
    own = {
        "sweep show": "sweeps", "results": "sweeps", "results best": "sweeps",
        "config get": "settings", "config set": "settings", "config unset": "settings",
    }  # fmt: skip
    return own.get(verb.name) or _OFFERS.get(metavar, "")


def _last_offered(verb: Verb) -> int:
    """The last word of a line that it is offered for: `config set` has one name, then a value."""
    return len(verb.name.split()) + 1 if len(verb.positionals) > 1 else 9999


def _select_by_name() -> list[str]:
    """The verbs whose --name says which jobs are meant, and not what a job is to be called."""
    from stoker.api.job_options import BY_KEY

    own = BY_KEY["name"].help.partition(" (default")[0]
    return [
        verb.name
        for verb in all_verbs()
        for option in verb.options
        if option.name == "name" and not option.help.startswith(own)
    ]


def _offered_for(verb: Verb, option: AnyOption) -> str:
    """The kind of words that the daemon knows for a verb's option, or ""."""
    if option.name == "name" and verb.name in _select_by_name():
        return "names"
    return _OFFERS.get(option.metavar, "")


def _top() -> list[Verb]:
    return [verb for verb in all_verbs() if " " not in verb.name]


def _words(verb: Verb) -> list[str]:
    """What may stand after a verb, options aside."""
    words = list(verb.members)
    for positional in verb.positionals:
        words += positional.choices
    if verb.name == "help":
        words += [other.name for other in _top()]
    return words


# --- bash ---

_BASH = """\
# bash completion for stoker; use it with: source <(stoker completion bash)
# What the daemon knows. Several jobs are shown with their names; one is completed without. What is
# inserted is quoted: a name may have spaces in it, or what the shell would run.
_stoker_offer() {
    local word about said found=() words=() ahead=
    # To bash a word ends at a colon: what is before it stays, and what follows is inserted.
    if [[ $1 == filters && $COMP_WORDBREAKS == *:* ]]; then
        word=${COMP_LINE:0:COMP_POINT}
        word=${word##* }
        [[ $word == *:* ]] && ahead=${word%%%%:*}: cur=${word#*:}
    fi
    while IFS=$'\\t' read -r word about; do
        [[ $word == "$ahead"* ]] || continue
        word=${word#"$ahead"}
        case $cur in
            \\'*) [[ $word == *\\'* ]] && continue; said=\\'$word ;;
            \\"*) said=\\"$(printf %%s "$word" | sed 's/[\\\\"$`]/\\\\&/g') ;;
            *) printf -v said %%q "$word" ;;
        esac
        [[ $said == "$cur"* || $word == "${cur#[\\'\\"]}"* ]] || continue
        [[ $cur == [\\'\\"]* ]] && said=${said:1}
        words+=("$said")
        found+=("$said${about:+  ($about)}")
    done < <(stoker completion --offer "$1" 2>/dev/null)
    # Type 37 is menu-complete, which inserts each in turn.
    ((${#found[@]} == 1 || COMP_TYPE == 37)) && found=("${words[@]}")
    ((${#found[@]} == 0)) || COMPREPLY=("${found[@]}")
}
# Files (-f) or directories (-d); readline quotes what is inserted.
_stoker_files() {
    mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
    compopt -o filenames 2>/dev/null
}
_stoker() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            # What follows is a command of its own.
            if ((i == COMP_CWORD - 1)); then
                COMPREPLY=($(compgen -c -- "$cur"))
            else
                _stoker_files -f
            fi
            return
        fi
    done
    verb=${COMP_WORDS[1]}
    ((COMP_CWORD == 1)) && verb=
    case "$verb ${COMP_WORDS[2]}" in
%(families)s
    esac
    case "$prev" in
%(values)s
    esac
    case "$verb" in %(commands)s)
        # Without two dashes, a command begins at the first word that is no option or its value.
        for ((i = 2; i < COMP_CWORD; i++)); do
            case "${COMP_WORDS[i]}" in
                %(valued)s) ((i++)) ;;
                -*) ;;
                *) _stoker_files -f; return ;;
            esac
        done
        [[ $cur == -* || -z $cur ]] || { COMPREPLY=($(compgen -c -- "$cur")); return; } ;;
    esac
    case "$verb" in
%(verbs)s
    esac
}
complete -F _stoker stoker
"""


def bash() -> str:
    """The script for bash."""
    families, values, verbs = [], [], []
    for verb in all_verbs():
        if " " in verb.name:
            # A member of a family counts once its word is complete, not while it is typed.
            families.append(f'        "{verb.name}") ((COMP_CWORD > 2)) && verb="{verb.name}" ;;')
        flags = [flag for option in verb.options for flag in flags_of(option)]
        words = " ".join([*_words(verb), "--help", *flags])
        reply = f'COMPREPLY=($(compgen -W "{words}" -- "$cur"))'
        live = _offer(verb)
        if live:
            asks = f"[[ $cur == -* ]] || _stoker_offer {live}"
            reply += f"; ((COMP_CWORD > {_last_offered(verb)})) || {asks}"
        elif verb.positionals and verb.positionals[0].metavar == "FILE":
            reply += "; [[ $cur == -* ]] || _stoker_files -f"
        verbs.append(f'        "{verb.name}") {reply} ;;')
    for flag, option in _valued().items():
        if option.choices:
            reply = f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur")); return'
        elif option.files:
            reply = f"_stoker_files -{option.files[0]}; return"
        elif flag == "--name":
            verbs_of_names = "|".join(f'"{verb}"' for verb in _select_by_name())
            reply = f'case "$verb" in {verbs_of_names}) _stoker_offer names ;; esac; return'
        elif option.metavar in _OFFERS:
            reply = f"_stoker_offer {_OFFERS[option.metavar]}; return"
        else:
            reply = "return"
        values.append(f"        {flag}) {reply} ;;")
    top = " ".join([*(verb.name for verb in _top()), "--help", "--version", "--json"])
    verbs.insert(0, f'        "") COMPREPLY=($(compgen -W "{top}" -- "$cur")) ;;')
    return _BASH % {
        "families": "\n".join(families),
        "values": "\n".join(values),
        "verbs": "\n".join(verbs),
        "commands": "|".join(verb.name for verb in _with_commands()),
        "valued": "|".join(sorted({
            flag for verb in _with_commands() for option in verb.options if option.metavar
            for flag in flags_of(option)
        })),
    }  # fmt: skip


def _with_commands() -> list[Verb]:
    """The verbs whose words are a command, with two dashes or without."""
    return [verb for verb in all_verbs() if verb.command and not verb.positionals]


def _valued() -> ByFlag:
    """The options that take a value, by flag, unless a flag of that name takes none elsewhere."""
    options = [option for verb in all_verbs() for option in verb.options]
    bare = {flag for option in options if not option.metavar for flag in flags_of(option)}
    found: ByFlag = {}
    for option in options:
        for flag in flags_of(option):
            if flag not in bare:
                found.setdefault(flag, option)
    return found


# --- zsh ---

_ZSH = """\
#compdef stoker
# zsh completion for stoker; put it into a file _stoker in a directory of $fpath,
# or use it with: source <(stoker completion zsh)
_stoker_offer() {
    local -a found
    found=("${(@f)$(stoker completion --offer $1 2>/dev/null)}")
    [[ -n $found[1] ]] || return
    found=("${(@)found//:/\\\\:}")
    found=("${(@)found/$'\\t'/:}")
    _describe -t $1 $1 found
}
_stoker() {
    local curcontext="$curcontext" state line verb
    local -a verbs
    verbs=(
%(verbs)s
    )
    if ((CURRENT == 2)); then
        _describe -t verbs verb verbs
        _arguments '--help[show help]' '--version[show the version]' '--json[print JSON]'
        return
    fi
    verb=$words[2]
    case "$verb $words[3]" in
%(families)s
    esac
    shift words
    ((CURRENT--))
    if [[ $verb == *' '* ]]; then
        shift words
        ((CURRENT--))
    fi
    case "$verb" in
%(cases)s
    esac
}
if [[ $funcstack[1] == _stoker ]]; then
    _stoker "$@"
else
    compdef _stoker stoker
fi
"""


def zsh() -> str:
    """The script for zsh."""
    verbs = [f"        {_zsh_quoted(f'{v.name}:{v.summary}')}" for v in _top()]
    families, cases = [], []
    for verb in all_verbs():
        if " " in verb.name:
            families.append(f"        '{verb.name}') ((CURRENT > 3)) && verb='{verb.name}' ;;")
        specs = ["'(-h --help)'{-h,--help}'[show help]'"]
        specs += [spec for option in verb.options for spec in _zsh_specs(verb, option)]
        words = _words(verb)
        if words:
            specs.append(f"'*:{'verb' if verb.verbs else 'word'}:({' '.join(words)})'")
        elif _offer(verb):
            place = "1" if len(verb.positionals) > 1 else "*"
            specs.append(f"'{place}:{_offer(verb)}:_stoker_offer {_offer(verb)}'")
        elif verb.positionals and verb.positionals[0].metavar == "FILE":
            specs.append("'*:file:_files'")
        elif verb.command:
            specs.append("'*::command:_normal'")
        lines = " \\\n                ".join(specs)
        cases.append(f"        '{verb.name}')\n            _arguments -s {lines} ;;")
    return _ZSH % {
        "verbs": "\n".join(verbs),
        "families": "\n".join(families),
        "cases": "\n".join(cases),
    }


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _zsh_specs(verb: Verb, option: AnyOption) -> list[str]:
    help_text = option.help.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    specs = []
    for flag in flags_of(option):
        spec = ("*" if option.repeat else "") + f"{flag}[{help_text}]"
        if option.metavar:
            action = f"({' '.join(option.choices)})" if option.choices else ""
            if live := _offered_for(verb, option):
                action = f"_stoker_offer {live}"
            action = {"file": "_files", "dir": "_files -/"}.get(option.files, action)
            spec += f":{option.metavar.replace(':', '')}:{action}"
        specs.append(_zsh_quoted(spec))
    return specs


# --- fish ---

_FISH_FIRST = "test (count (commandline -opc)) -eq 1"


def fish() -> str:
    """The script for fish."""
    lines = [
        "# fish completion for stoker; use it with: stoker completion fish | source",
        "# Whether the words so far are these, the last of them being the one before the cursor.",
        "function __stoker_verb",
        "    set -l words (commandline -opc)",
        "    contains -- -- $words; and return 1",
        "    test (count $words) -gt (count $argv); or return 1",
        # A range takes no command substitution inside quotes.
        "    set -l last (math (count $argv) + 1)",
        '    test "$words[2..$last]" = "$argv"',
        "end",
        "complete -c stoker -f",
        f"complete -c stoker -n '{_FISH_FIRST}' -l version -d 'show the version'",
    ]
    for verb in all_verbs():
        words = verb.name.split(" ")
        parent = " ".join(words[:-1])
        condition = f"__stoker_verb {parent}" if parent else _FISH_FIRST
        lines.append(
            f"complete -c stoker -n {_fish_quoted(condition)} -a {words[-1]} "
            f"-d {_fish_quoted(verb.summary)}"
        )
        own = _fish_quoted(f"__stoker_verb {verb.name}")
        for option in verb.options:
            parts = [f"complete -c stoker -n {own} -l {option.name}"]
            if option.short:
                parts.append(f"-s {option.short}")
            if option.metavar:
                parts.append("-r")
            if option.choices:
                parts.append(f"-a {_fish_quoted(' '.join(option.choices))}")
            elif option.files:
                parts.append("-F")
            elif live := _offered_for(verb, option):
                parts.append(f"-a '(stoker completion --offer {live})'")
            parts.append(f"-d {_fish_quoted(option.help)}")
            lines.append(" ".join(parts))
        if not verb.verbs and _words(verb):
            lines.append(f"complete -c stoker -n {own} -a {_fish_quoted(' '.join(_words(verb)))}")
        if _offer(verb):
            last = f"test (count (commandline -opc)) -le {_last_offered(verb)}"
            when = _fish_quoted(f"__stoker_verb {verb.name}; and {last}")
            lines.append(
                f"complete -c stoker -n {when} -a '(stoker completion --offer {_offer(verb)})'"
            )
        elif verb.command or (verb.positionals and verb.positionals[0].metavar == "FILE"):
            lines.append(f"complete -c stoker -n {own} -F")
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


VERB = Verb(
    "completion",
    "print a script that completes verbs and options in your shell",
    run=completion,
    positionals=(Positional("SHELL", "bash, zsh or fish", choices=_SHELLS, optional=True),),
    options=(
        Option("offer", "print what the script offers while you type: jobs, names, groups, "
               "sweeps, settings or gpus, one per line with its meaning", "KIND", _kind,
               choices=_KINDS),
    ),
    examples=(
        ("source <(stoker completion bash)", "for this shell; put it into ~/.bashrc to keep it"),
        ("stoker completion fish > ~/.config/fish/completions/stoker.fish", "for fish"),
    ),
    notes=(
        "It completes verbs, options and files, and what the daemon knows: ids of jobs with their "
        "names, groups, sweeps, settings and GPUs. No daemon is started for it.",
    ),
)  # fmt: skip
