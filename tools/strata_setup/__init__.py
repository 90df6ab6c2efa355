"""The parts of setup.py."""
