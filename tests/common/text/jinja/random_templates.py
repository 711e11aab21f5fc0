"""Random templates from a grammar that combines any constructs, over the variables of
snippets.py."""

NAMES = ["s", "e", "n", "f", "neg", "l", "ls", "d", "none_", "t", "msgs", "u", "q", "people",
         "words", "x", "y", "missing"]
LITERALS = ["1", "0", "-2", "2.5", "'a'", "'b c'", "''", "true", "none", "[]", "[1, 'a']",
            "{'a': 1}", "(1, 2)", "'é日'"]
ATTRIBUTES = ["role", "content", "a", "b", "items", "name", "age", "upper", "x"]
FILTERS = [
    "trim", "upper", "lower", "title", "capitalize", "length", "list", "first", "last", "join",
    "join(', ')", "string", "int", "float", "round", "abs", "sort", "unique | list",
    "reverse | list", "tojson", "tojson(indent=2)",
    "default('z')", "default(1, true)", "sum", "min", "max", "batch(2) | list", "slice(2) | list",
    "wordcount", "replace('a', 'zz')", "indent(2)", "dictsort", "items | list",
    "map('string') | list", "map(attribute='role') | list",
    "select | list", "reject('none') | list", "selectattr('role') | list",
    "rejectattr('age', 'gt', 2) | list", "groupby('age') | list", "map('upper') | join('-')",
    "truncate(5)", "center(9)", "escape", "format(1)",
]  # fmt: skip
TESTS = [
    "defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number",
    "integer", "float", "boolean", "true", "false", "odd", "even", "divisibleby(2)", "in [1, 2]",
    "eq 1", "ne 'a'", "lt 3", "ge 'a'", "lower", "upper",
]  # fmt: skip
METHODS = [
    "strip()", "strip('a ')", "lstrip()", "rstrip('\\n')", "split()", "split(',')",
    "split(none, 1)", "rsplit(' ', 1)", "splitlines()", "startswith('a')", "endswith(('a', 'b'))",
    "upper()", "lower()", "title()", "replace('a', 'b')",
    "find('l')", "count('l')", "isdigit()", "isspace()", "get('a')", "get('q', 5)",
    "items() | list", "keys() | list", "values() | list", "index(1)", "join(['a', 'b'])",
    "capitalize()", "zfill(4)", "partition(' ')",
]  # fmt: skip
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "and", "or", "in",
          "not in"]


def expression(rng, depth=0):
    if depth > 3 or rng.random() < 0.25:
        return rng.choice(NAMES if rng.random() < 0.7 else LITERALS)
    inner = lambda: expression(rng, depth + 1)  # noqa: E731
    kind = rng.randrange(12)
    if kind == 0:
        return f"{inner()} {rng.choice(BINARY)} {inner()}"
    if kind == 1:
        return f"({inner()})"
    if kind in (2, 3):
        return f"({inner()}) | {rng.choice(FILTERS)}"
    if kind == 4:
        return f"({inner()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
    if kind == 5:
        return f"{rng.choice(NAMES)}.{rng.choice(METHODS)}"
    if kind == 6:
        return f"({inner()} if {inner()} else {inner()})"
    if kind == 7:
        return f"{rng.choice(NAMES)}.{rng.choice(ATTRIBUTES)}"
    if kind == 8:
        # Only names are sliced: Jinja folds constants, and turns errors in them into Undefined.
        if rng.random() < 0.5:
            return f"{rng.choice(NAMES)}[{rng.choice(['1:', '::-1', ':-1', '1:3', 'n:'])}]"
        return f"({inner()})[{rng.choice(['0', '-1', repr(rng.choice(ATTRIBUTES)), 'n'])}]"
    if kind == 9:
        return f"not {inner()}"
    if kind == 10:
        return f"[{inner()}, {inner()}]"
    return "{" + f"'k': {inner()}, 'a': {inner()}" + "}"


def statement(rng, depth):
    body = lambda: template(rng, depth + 1)  # noqa: E731
    dash = lambda: rng.choice(["", "", "-", "+"])  # noqa: E731
    begin, end = "{%" + dash() + " ", " " + rng.choice(["", "", "-", "+"]) + "%}"
    kind = rng.randrange(10)
    if kind in (0, 1):
        other = f"{begin}else{end}{body()}" if rng.random() < 0.5 else ""
        middle = f"{begin}elif {expression(rng)}{end}{body()}" if rng.random() < 0.3 else ""
        return f"{begin}if {expression(rng)}{end}{body()}{middle}{other}{begin}endif{end}"
    if kind in (2, 3):
        over = rng.choice(["l", "ls", "msgs", "people", "d", "range(3)", "words.split()", "s",
                           expression(rng)])
        where = f" if {expression(rng, 2)}" if rng.random() < 0.2 else ""
        inside = rng.choice(["", "{{ loop.index }}", "{{ loop.last }}{{ loop.nextitem }}",
                             "{{ loop.length }}"])
        leave = rng.choice(["", "", "", "{% if loop.index > 1 %}{% break %}{% endif %}",
                            "{% if x %}{% continue %}{% endif %}"])
        other = f"{begin}else{end}{body()}" if rng.random() < 0.3 else ""
        return f"{begin}for x in {over}{where}{end}{inside}{leave}{body()}{other}{begin}endfor{end}"
    if kind in (4, 5):
        return f"{begin}set {rng.choice(['x', 'y', 'n', 's'])} = {expression(rng)}{end}"
    if kind == 6:
        filters = rng.choice(["", " | upper", " | trim"])
        return f"{begin}set y{filters}{end}{body()}{begin}endset{end}"
    if kind == 7:
        macro = f"{begin}macro m(x, y={expression(rng, 2)}){end}{body()}{begin}endmacro{end}"
        return macro + "{{ m(1) }}{{ m(s, y=n) }}"
    if kind == 8:
        name = rng.choice(["upper", "trim", "indent(1)", "replace(n, s)"])
        return f"{begin}filter {name}{end}{body()}{begin}endfilter{end}"
    return f"{begin}with y = {expression(rng, 2)}{end}{body()}{begin}endwith{end}"


def template(rng, depth=0):
    parts = []
    for _ in range(rng.randrange(1, 4 if depth else 6)):
        kind = rng.random()
        if kind < 0.35:
            parts.append(rng.choice(["text", " ", "\n", "  \n  ", "a\n", "\n\n", "é", "{# c #}",
                                     "{#- c -#}", "{% raw %}{{ }}{% endraw %}"]))
        elif kind < 0.7 or depth > 2:
            parts.append("{{" + rng.choice(["", "-", " "]) + " " + expression(rng) + " "
                         + rng.choice(["", "-"]) + "}}")
        else:
            parts.append(statement(rng, depth))
    return "".join(parts)
