"""`python -m naysay` is `naysay`."""

from naysay.cli import main

if __name__ == "__main__":
    main()
