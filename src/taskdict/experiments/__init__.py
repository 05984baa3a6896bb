"""The paper's experiments as commands: ``taskdict reproduce``. Each leaves a record from which its tables are made."""
