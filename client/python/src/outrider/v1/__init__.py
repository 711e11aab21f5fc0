"""Messages and stubs of the package outrider.v1, generated from proto/outrider/v1."""
