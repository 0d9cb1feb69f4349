"""results.json: its records and schema, and how it is written, read and checked."""
