"""`python -m aijobs`: the same as the `aijobs` command."""

from aijobs.cli.main import main

if __name__ == "__main__":
    main()
