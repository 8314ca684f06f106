"""Model Explorer's graph JSON, node data, styler rules and sync mappings."""
