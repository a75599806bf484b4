"""A table, a model, people, promises: loaded from files, checked, and run."""
