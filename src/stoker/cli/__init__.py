"""The command line: one file a verb, each imported only when that verb is used."""
