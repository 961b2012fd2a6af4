"""Methods of the trusted-curator model, one published method a file."""
