"""What happens in a run, told to other tools: OpenTelemetry, logs in JSON, figures for Prometheus."""
