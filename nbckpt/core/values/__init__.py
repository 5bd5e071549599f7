"""Values: turns objects into records, and records into objects."""
