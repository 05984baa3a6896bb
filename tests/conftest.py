"""Warnings are errors (see pyproject.toml); nothing else is shared here."""
