"""The keys of the live view: what each does, and what help says of them."""

from __future__ import annotations

from stoker.top.paint import Line

KEYS = (
    ("q,ctrl+c,ctrl+q", "quit"),
    ("question_mark", "help"),
    ("slash", "filter"),
    ("j,down", "move(1)"),
    ("k,up", "move(-1)"),
    ("pagedown,ctrl+d,ctrl+f", "page(1)"),
    ("pageup,ctrl+u,ctrl+b", "page(-1)"),
    ("g,home", "to_start"),
    ("G,end", "to_end"),
    ("enter", "details"),
    ("escape", "step_back"),
    ("space", "mark"),
    ("s", "sort"),
    ("S", "sort_backwards"),
    ("l", "log"),
    ("m", "metric"),
    ("tab", "other_pane"),
    ("c", "act('cancel')"),
    ("r", "act('retry')"),
    ("h", "act('hold')"),
    ("z", "act('suspend')"),
    ("e", "edit"),
    ("p", "pause(False)"),
    ("P", "pause(True)"),
    ("d", "drain"),
    ("plus", "act('sooner')"),
    ("minus", "act('later')"),
    ("ctrl+l", "redraw"),
    ("ctrl+z", "suspend_process"),
)

_HELP = (
    ("j k, arrows", "move; PageDown PageUp, g G or Home End"),
    ("/", "filter: words of name, group or command, or an id;"),
    ("", "state:failed group:x name:lr* gpu:2 since:2h -not"),
    ("s  S", "sort by the next column; reverse the order"),
    ("Enter", "details of the job under the cursor, and why it waits"),
    ("l", "follow its log; scroll up to stop, G to continue"),
    ("m", "the next metric's curve beside the log; after the last, none"),
    ("Tab", "switch between the list and the pane below"),
    ("Esc", "close the pane, else clear the filter, then the marks"),
    ("Space", "mark jobs: the keys below act on all marked jobs"),
    ("c", "cancel: stop jobs, or remove them from the queue (asks)"),
    ("r", "retry finished jobs"),
    ("h", "hold waiting jobs, release held ones"),
    ("z", "suspend running jobs, let suspended ones go on"),
    ("+  -", "sooner, later: change priority by one (lower goes first)"),
    ("e", "edit waiting jobs in your editor"),
    ("p  P", "pause the queue, or the job's group; again: resume"),
    ("d", "drain GPUs, or resume drained ones"),
    ("q, Ctrl-C", "quit; jobs continue. Ctrl-Z suspends, Ctrl-L redraws"),
)

HELP: list[Line] = [[(f"{key:<12}", "bold"), (f"  {words}", "")] for key, words in _HELP]
