"""One file per version of the books."""
