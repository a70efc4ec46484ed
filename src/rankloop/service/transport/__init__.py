"""Connections of the service: limits, time-outs, admission, and how answers are sent."""
