"""Run the command line with ``python -m firsthand``."""

from firsthand.cli import main

if __name__ == "__main__":
    main()
