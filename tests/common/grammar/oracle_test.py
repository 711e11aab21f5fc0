"""Compares grammars with independent readers: regular expressions with Python's re, GBNF grammars
with functions written for them, schemas with jsonschema. All texts are seeded or enumerated.

    oracle_test.py SOURCE_DIR BIN_DIR
"""

import itertools
import json
import random
import re
import subprocess
import sys

from formats import validator
from processes import SKIPPED, TIME_LIMIT
from schemas import INSTANCES, INTERSECTED, MUST_ACCEPT, SCHEMAS

RANDOM_REGEXES = 150
WALKS = 40


def ask(program, requests):
    """Sends the requests to the program and returns one answer per request."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([program], input=lines, capture_output=True, text=True,
                          timeout=TIME_LIMIT)
    if done.returncode != 0:
        sys.exit(f"check_grammars ended with {done.returncode}: {done.stderr[:2000]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def request(kind, text="", texts=(), walks=0, seed=1, pieces=(), choices=()):
    return {"kind": kind, "text": text, "texts": list(texts), "walks": walks, "seed": seed,
            "pieces": list(pieces), "choices": list(choices)}


def words(alphabet, longest):
    for size in range(longest + 1):
        for letters in itertools.product(alphabet, repeat=size):
            yield "".join(letters)


def random_regex(rng, depth):
    kind = rng.randrange(9 if depth > 0 else 3)
    if kind <= 1:
        return rng.choice("abc")
    if kind == 2:
        return rng.choice(["[ab]", "[^a]", ".", "[b-c]", "\\x61", "", "é?"])
    if kind in (3, 4):
        return "".join(random_regex(rng, depth - 1) for _ in range(rng.randrange(1, 4)))
    if kind in (5, 6):
        return "(" + "|".join(random_regex(rng, depth - 1)
                              for _ in range(rng.randrange(1, 4))) + ")"
    quantifier = rng.choice(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "*?", "{3}"])
    return "(?:" + random_regex(rng, depth - 1) + ")" + quantifier


def compare(name, answer, texts, is_in):
    """The grammar and the oracle accept the same texts, and every prefix of an accepted text is
    alive."""
    if "error" in answer:
        sys.exit(f"{name}: refused: {answer['error']}")
    begins = set()
    for text, accepts in zip(texts, answer["accepts"]):
        if (accepts == "1") != is_in(text):
            sys.exit(f"{name}: {text!r} is {'accepted' if accepts == '1' else 'not accepted'}")
        if accepts == "1":
            begins.update(text[:i] for i in range(len(text) + 1))
    for text, alive in zip(texts, answer["alive"]):
        if text in begins and alive != "1":
            sys.exit(f"{name}: {text!r} is dead, but begins a text of the grammar")
    for walk in answer["walks"]:
        if not is_in(walk):
            sys.exit(f"{name}: made {walk!r}")


def check_regexes(program):
    rng = random.Random(5)
    regexes = [random_regex(rng, 4) for _ in range(RANDOM_REGEXES)]
    regexes += ["(a|a)*", "(a*)*b", "(a|ab)(c|bc)", "a{3,5}b{0,2}", "[ab]{4,6}c", "(ab?){0,300}"]
    # Short texts, since Python's re backtracks through every parse.
    texts = list(words("abc", 5)) + ["é", "aéb", "\n", "bbbbbbc"]
    answers = ask(program, [request("regex", regex, texts, walks=5,
                                    pieces=["ab", "bc", "cab", "aéb"])
                            for regex in regexes])
    for regex, answer in zip(regexes, answers):
        if "error" in answer and "no text matches" in answer["error"]:
            continue
        # In ECMAScript, `.` excludes more line terminators than in Python.
        python = re.compile(regex.replace(".", "[^\\n\\r\\u2028\\u2029]"))
        compare(regex, answer, texts, lambda text: python.fullmatch(text) is not None)
    print(f"{len(regexes)} regular expressions, {len(texts)} texts each, as Python's re")


def balanced(text):
    depth = 0
    for letter in text:
        depth += 1 if letter == "(" else -1
        if depth < 0:
            return False
    return depth == 0


def check_gbnf(program):
    cases = [
        ('root ::= "(" root ")" root | ""', "()", 9, balanced),
        ('root ::= "a" root "b" | ""', "ab", 9,
         lambda t: t == "a" * (len(t) // 2) + "b" * (len(t) // 2)),
        ('root ::= "a" root "a" | "b" root "b" | [ab]?', "ab", 9, lambda t: t == t[::-1]),
        ('root ::= x | y\nx ::= "a"* m\ny ::= n "c"*\nm ::= "b" m "c" | ""\nn ::= "a" n "b" | ""',
         "abc", 7, lambda t: re.fullmatch("a*b*c*", t) is not None
         and (t.count("b") == t.count("c") or t.count("a") == t.count("b"))),
        ('root ::= s s\ns ::= "a" s | ""', "a", 8, lambda t: True),
        ('root ::= e\ne ::= t ("+" t)*\nt ::= "a" | "(" e ")"', "a+()", 6, None),
        ('root ::= (root2 "c"){2,30} \nroot2 ::= "a" root2 "b" | "ab"', "abc", 8,
         lambda t: re.fullmatch("((ab|aabb|aaabbb)c){2,30}", t) is not None),
    ]
    expression = re.compile(r"a|\(R\)|R\+R")

    def is_sum(text):
        last = None
        while last != text:
            last, text = text, expression.sub("R", text, count=1)
        return text == "R"

    texts = [list(words(alphabet, longest)) for _, alphabet, longest, _ in cases]
    answers = ask(program, [request("gbnf", case[0], each, walks=10,
                                    pieces=["ab", "((", "))", "aab"])
                            for case, each in zip(cases, texts)])
    for (grammar, _, longest, is_in), answer, each in zip(cases, answers, texts):
        if is_in is not None and longest < 9:
            answer["walks"] = [walk for walk in answer["walks"] if len(walk) <= longest]
        compare(grammar, answer, each, is_in or is_sum)
    print(f"{len(cases)} grammars, {sum(map(len, texts))} texts")


def check_choice(program):
    choices = ["yes", "no", "yes, but", "", "né"]
    texts = choices + ["y", "yes,", "nO", "x"]
    answer = ask(program, [request("choice", "", texts, walks=30, choices=choices,
                                   pieces=["es", ", b"])])[0]
    compare("choice", answer, texts, lambda text: text in choices)


def pieces_of(schema):
    """Tokens that are likely to occur in texts that follow the schema."""
    texts = [json.dumps(schema), json.dumps(schema, separators=(",", ":"), ensure_ascii=False)]
    out = {'"', '",', '":', '{"', '"}', '"]', '", "', '": "', "}}", "},{", "],[", "true", "false",
           "null", "é", "12", "0.5", "-3", "2024", "-02-", "T12:", ":00Z", "ab", "xyz "}
    for text in texts:
        out.update(re.findall(r"[A-Za-z0-9_]+|[\":,{}\[\] ]+", text))
    return sorted(out)


def is_strict_json(text):
    def no_constants(word):
        raise ValueError(word)
    try:
        return json.loads(text, parse_constant=no_constants)
    except ValueError:
        sys.exit(f"not JSON: {text!r}")


def check_schemas(program):
    try:
        import jsonschema  # noqa: F401
    except ImportError:
        print("skipped: schemas are not compared, since python3-jsonschema is not installed "
              "(scripts/setup.sh --tests)")
        sys.exit(SKIPPED)
    schemas = SCHEMAS + INTERSECTED
    requests = []
    for schema in schemas:
        texts = [json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in INSTANCES]
        requests.append(request("schema", json.dumps(schema), texts, WALKS,
                                pieces=pieces_of(schema)))
    answers = ask(program, requests)
    made = accepted = 0
    for schema, answer in zip(schemas, answers):
        if "error" in answer:
            sys.exit(f"{json.dumps(schema)}: refused: {answer['error']}")
        judge = validator(schema)
        if len(answer["walks"]) < WALKS // 2:
            sys.exit(f"{json.dumps(schema)}: only {len(answer['walks'])} of {WALKS} texts ended")
        for walk in answer["walks"]:
            made += 1
            for error in judge.iter_errors(is_strict_json(walk)):
                sys.exit(f"{json.dumps(schema)}: made {walk!r}: {error.message}")
        for instance, accepts in zip(INSTANCES, answer["accepts"]):
            accepted += accepts == "1"
            if accepts == "1" and not judge.is_valid(instance):
                sys.exit(f"{json.dumps(schema)}: accepts {instance!r}, which is not valid")
    print(f"{len(schemas)} schemas: {made} texts made, all valid; of "
          f"{len(schemas) * len(INSTANCES)} instances {accepted} are accepted, all of them valid")
    answer = ask(program, [request("object", walks=WALKS,
                                   pieces=pieces_of({"a": [1, {"b": None}]}))])[0]
    for walk in answer["walks"]:
        if not isinstance(is_strict_json(walk), dict):
            sys.exit(f"no object: {walk!r}")


def check_accepted(program):
    """Valid values must be accepted by the grammar."""
    texts = [[json.dumps(value, ensure_ascii=False) for value in values]
             for _, values in MUST_ACCEPT]
    answers = ask(program, [request("schema", json.dumps(schema), each)
                            for (schema, _), each in zip(MUST_ACCEPT, texts)])
    for (schema, values), answer in zip(MUST_ACCEPT, answers):
        if "error" in answer:
            sys.exit(f"{json.dumps(schema)}: refused: {answer['error']}")
        for value, accepts in zip(values, answer["accepts"]):
            if accepts != "1":
                sys.exit(f"{json.dumps(schema)}: does not accept {value!r}")
            for error in validator(schema).iter_errors(value):
                sys.exit(f"{json.dumps(schema)}: {value!r} should be valid: {error.message}")
    print(f"{len(MUST_ACCEPT)} schemas accept {sum(map(len, texts))} values")


def main():
    program = sys.argv[2] + "/check_grammars"
    check_regexes(program)
    check_gbnf(program)
    check_choice(program)
    check_schemas(program)
    check_accepted(program)


if __name__ == "__main__":
    main()
