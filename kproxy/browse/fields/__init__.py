"""What there is to see of one side of an exchange: fields, their bytes, records."""
