"""What users construct: parameters, documentation and fitted attributes; no arithmetic."""
