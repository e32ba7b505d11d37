"""What is measured, and by which command: a package of its own, since others install one of the same name."""
