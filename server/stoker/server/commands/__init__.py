"""One module per command of the command line; imported when the command is used, not before."""
