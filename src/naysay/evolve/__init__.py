"""Evolve: the rules of a table kept current as rows come and go."""
