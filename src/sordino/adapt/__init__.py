"""How the next round follows from what was released."""
