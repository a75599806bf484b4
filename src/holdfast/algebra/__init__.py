"""What deletions do to linear functionals of a fit: nothing here knows which model it came from."""
