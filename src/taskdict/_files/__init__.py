"""Model files and checkpoints.

`storage` and `values` read and write them without executing anything. `persistent` is the one way to save an estimator,
`registry` the one to load it. `checkpoint` and `fingerprint` let a training be resumed, but only with the same data.
"""
