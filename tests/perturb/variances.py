"""What noise is left on a secure sum, by hand."""


def remaining(shares, survivors, revealed):
    """Returns the variance left on the sum when so many of the survivors revealed their removable part."""
    return float(revealed * shares.share_variance(survivors) + (survivors - revealed) * shares.share_variance())
