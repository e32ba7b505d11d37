"""The client's side of a round: accept terms, train, bound, shield, reveal."""
