"""Entry point of ``python -m ftloader``."""

from ftloader.drop_in.command import main

if __name__ == "__main__":
    main()
