"""The older tools under their own names: thin translations onto the command line and the api."""
