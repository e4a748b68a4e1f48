"""What happens to a machine, and in which order: pure values and one pure function."""
