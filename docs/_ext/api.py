"""What the pages of the API leave out: what scikit-learn adds to every estimator."""

from __future__ import annotations


def _left_out(app, what, name, obj, skip, options):
    routing = name == "get_metadata_routing" or (name.startswith("set_") and name.endswith("_request"))
    return True if routing else None


def setup(app):
    """Ask for every member."""
    app.connect("autodoc-skip-member", _left_out)
    return {"parallel_read_safe": True}
