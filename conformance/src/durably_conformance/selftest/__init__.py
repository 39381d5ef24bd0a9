"""The proof of the suite: deliberately wrong backends that fail exactly what they declare."""
