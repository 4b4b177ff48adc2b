"""Strict models of every outside document, and the JSON Schemas generated from them."""
