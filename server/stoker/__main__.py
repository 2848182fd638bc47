"""`python -m stoker`: the command line, where its script is not on the path."""

from stoker.server.__main__ import main

if __name__ == "__main__":
    main()
