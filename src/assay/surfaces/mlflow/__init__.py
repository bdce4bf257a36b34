"""Finished runs in MLflow, and graders of one in the other; nothing of mlflow is imported before it is asked for."""
