// Empty: outrider_test_headers is made of its precompiled headers.
