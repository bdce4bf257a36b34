"""Where people and programs meet the product: commands, reports, server, pages, charts, exports, MLflow, telemetry, Python."""
