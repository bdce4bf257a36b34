"""Events of runs for other tools: OpenTelemetry, logs in JSON, metrics for Prometheus."""
