"""Whole pictures: patches of them, what damages them, and their restoration."""
