"""A federation across machines: the operator's side, the nodes' side, and what lies in their folders."""
