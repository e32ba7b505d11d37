"""Random draws: keyed streams in simulation, the operating system's entropy in deployment."""
