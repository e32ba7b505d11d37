"""What to expect of a run before it is played: signal, noise, cautions, and which settings to begin with."""
