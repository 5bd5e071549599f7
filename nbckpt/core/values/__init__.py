"""Values: objects to records and back."""
