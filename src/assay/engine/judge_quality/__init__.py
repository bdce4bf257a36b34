"""How far a judge can be trusted: labels of people, calibration, probes."""
