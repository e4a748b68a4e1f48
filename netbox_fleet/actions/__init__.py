"""What people may do to the records, each with its own permission; pages and REST call the same functions."""
