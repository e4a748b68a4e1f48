"""What must survive a restart: tables and queries, on PostgreSQL."""
