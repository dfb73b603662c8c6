"""Family P: payloads, the keys and values of records. Its rules need `RecordsDecoded`."""
