"""The long runs behind docs/reliability.md: `scripts/soak NAME --n N --seed S`.

One file per row of the table. A row is a function from a seed to an outcome, so that a run is a range of seeds and a
failure is identified by its seed.
"""
