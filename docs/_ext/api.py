"""What the pages of the API leave out: what pandas and scikit-learn add to every class."""

from __future__ import annotations

import inspect


def _left_out(app, what, name, obj, skip, options):
    routing = name == "get_metadata_routing" or (
        name.startswith("set_") and name.endswith("_request")
    )
    home = (
        getattr(inspect.unwrap(getattr(obj, "fget", None) or obj), "__module__", None) or "holdfast"
    )
    return True if routing or not str(home).startswith("holdfast") else None


def setup(app):
    """Ask for every member."""
    app.connect("autodoc-skip-member", _left_out)
    return {"parallel_read_safe": True}
