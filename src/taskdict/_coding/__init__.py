"""Sparse coding of many signals on one dictionary.

`encode` returns codes, `coded_batch` codes with the way back for gradients, `coded_map` the outputs Wα + b of signals.
"""
