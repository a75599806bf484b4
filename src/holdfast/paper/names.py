"""What data sets, models and methods are called."""

from __future__ import annotations

NAMES = {
    "admission": "Admission",
    "heloc": "HELOC",
    "compas": "COMPAS",
    "diabetes": "Diabetes",
    "linear": "linear",
    "ntk": "NTK",
    "wide": "wide ReLU network",
    "logistic": "logistic",
    "ls-svm": "LS-SVM",
    "ann": "ANN",
    "scfe": "SCFE",
    "dice": "DICE",
    "cem": "CEM",
    "growing-spheres": "Growing Spheres",
}
