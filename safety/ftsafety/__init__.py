"""Thread safety: the audit of datasets (`audit`) and the reproducer of bugs (`repro`)."""
