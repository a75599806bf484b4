"""Estimators of our own, by scikit-learn's conventions alone."""
