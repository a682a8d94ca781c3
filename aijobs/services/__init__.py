"""What runs: the coordinator (the only writer of a job's status), the worker, the sweeper and their kin."""
