"""Accountants that compose the privacy loss of events, filters for adaptive releases, and calibration."""
