"""Private models with scikit-learn's interface; `sordino.sklearn` is their public name."""
