"""Where the parts of the live view are, as Textual's style sheet."""

CSS = """
Screen { background: ansi_default; color: ansi_default; layout: vertical; }
#summary, #title, #pane_title, #filter, #named_gpus, #message { height: 1; }
#gpus { height: 2; }
#jobs { height: 1fr; min-height: 2; }
#output, #details { height: 2fr; min-height: 2; }
#output.beside { layout: horizontal; }
#log { width: 1fr; height: 1fr; }
#curve { height: 40%; }
.beside #curve { width: 40%; height: 1fr; }
#keys { height: 1; }
Confirmation, Pages { align: center middle; background: transparent; }
#question, #pages {
    background: ansi_default; color: ansi_default; border: round ansi_default;
    padding: 0 1; max-width: 100%; max-height: 100%;
}
"""
