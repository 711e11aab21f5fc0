// Empty: outrider_test_headers consists only of precompiled headers.
