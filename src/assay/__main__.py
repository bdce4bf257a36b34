"""`python -m assay`, the same as the installed command."""

from assay.surfaces.cli.main import main

if __name__ == "__main__":
    main()
