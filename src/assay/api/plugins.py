"""Installed plugins, for people who want to know what is there."""

from assay.engine.planning.plugins import PluginListing, list_plugins

__all__ = ["PluginListing", "list_plugins"]
