"""A Flower app that was made private."""
