"""Inventories: what there is to run on."""
