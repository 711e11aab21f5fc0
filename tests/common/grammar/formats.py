"""JSON Schema formats for jsonschema; its own checks of some of them need packages that Debian 12
lacks."""

import datetime
import decimal
import re

DATE_TIME = re.compile(r"[0-9-]{10}T[0-9:]{8}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")
LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"  # RFC 1123, section 2.1
HOST = re.compile(rf"(?=.{{1,253}}$){LABEL}(\.{LABEL})*")
# RFC 3339, appendix A.
TIME_OF_DURATION = r"T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S)"
DATE_OF_DURATION = r"(\d+D|\d+M(\d+D)?|\d+Y(\d+M(\d+D)?)?)"
# RFC 3986, appendix A: URIs with an authority whose host is a name.
PCHAR = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
NAME = r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*://{NAME}(:[0-9]*)?(/{PCHAR}*)*"
                 rf"(\?({PCHAR}|[/?])*)?(#({PCHAR}|[/?])*)?")
DURATION = re.compile(rf"P({DATE_OF_DURATION}({TIME_OF_DURATION})?|{TIME_OF_DURATION}|\d+W)",
                      re.ASCII)


def is_date_time(value):
    """RFC 3339, section 5.6."""
    if not isinstance(value, str):
        return True
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        return False
    return DATE_TIME.fullmatch(value) is not None


def is_time(value):
    return not isinstance(value, str) or is_date_time("2000-01-01T" + value)


def matches(expression):
    return lambda value: not isinstance(value, str) or expression.fullmatch(value) is not None


def multiple_of(validator, divisor, instance, schema):
    """Checks multiples in decimal, as written: jsonschema divides doubles, so that 0.07 is not a
    multiple of 0.01."""
    import jsonschema

    if not validator.is_type(instance, "number"):
        return
    with decimal.localcontext() as context:
        context.prec = 1000
        rest = decimal.Decimal(repr(instance)) % decimal.Decimal(repr(divisor))
    if rest != 0:
        yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {divisor!r}")


def validator(schema):
    """A jsonschema validator for a schema that also checks the formats above."""
    import jsonschema

    formats = jsonschema.FormatChecker()
    for name, check in {"date-time": is_date_time, "time": is_time, "hostname": matches(HOST),
                        "duration": matches(DURATION), "uri": matches(URI)}.items():
        formats.checks(name)(check)
    extended = jsonschema.validators.extend(jsonschema.Draft202012Validator,
                                            {"multipleOf": multiple_of})
    return extended(schema, format_checker=formats)
