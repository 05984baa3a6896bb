"""The paper's experiments: ``taskdict reproduce``. Each leaves a record from which its tables are generated.

An experiment is a package here that has

- ``__init__.py``: its settings with their options on the command line, and an :class:`Experiment` of the name
  ``EXPERIMENT``. It is imported for every command, so it imports nothing slow.
- ``procedure.py``: the runs, and their order (:class:`taskdict.experiments.frame.Procedure`).
- ``report.py``: the table and the figures (:class:`taskdict.experiments.frame.Report`).

Nothing else has to be changed for a new experiment: :mod:`taskdict.experiments.catalogue` finds it. The other modules
are the frame that all experiments share.
"""
