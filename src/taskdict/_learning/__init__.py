"""Learning: the paper's problem, its algorithms, and the run that applies them to batches.

The problem
    `models` maps codes to scores. `objective` has the weights D, W, b, Z and the expected loss with its penalties
    (``eq:formulation``, ``eq:extended``, ``eq:semi``). `sets` has the constraint sets of the weights.
The algorithms
    `rates` has the learning rates, `descent` one step of Algorithm 1, `rate_search` the search for the learning rate
    (Section 4.2). `start` finds where the descent starts. `online` is unsupervised dictionary learning.
The run
    `task_settings` parses the parameters of an estimator. `scaling` converts units. `schedule` says how long to learn
    and for which μ. A `committee` of models is trained side by side. `trainer` maps a `state` and a batch to the next
    state. `training` is the record of a training and its file. `training_run` owns the record, takes the batches, calls
    the callbacks and writes the checkpoints.
"""
