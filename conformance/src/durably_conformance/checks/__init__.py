"""The checks, a module for each subject; importing one registers what is in it."""
