"""Templates render byte for byte as in Jinja with transformers' environment; what is an error there
is an error here."""

import pathlib
import random
import re
import sys
import unittest
import warnings

try:
    import jinja2  # noqa: F401
except ImportError:
    print("skipped: no python3-jinja2 (scripts/setup.sh --tests)")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import chats  # noqa: E402
import oracle  # noqa: E402
import random_templates  # noqa: E402
import snippets  # noqa: E402

warnings.simplefilter("ignore")  # warnings about the Python code that Jinja generates

BINARIES = sys.argv[2]
TEMPLATES = sorted((pathlib.Path(__file__).parent / "templates").glob("*.jinja"))
CHATS = 400  # per template
RANDOM_TEMPLATES = 2500

# Deliberately refused here, although Jinja accepts it (docs/http.md).
REFUSED = re.compile(
    r"not supported|64 bits|cannot be printed|compared by identity|was made by 'safe'"
    r"|filter '\w+': (needs a number|takes|base must|length or leeway)"
)
# Python prints addresses of objects, and has integers of more than 64 bits.
NOT_COMPARABLE = re.compile(r" object at 0x| of \w+ object| at 0x|\d{19}")


def spans_of(text, part):
    return [match.span() for match in re.finditer(re.escape(part), text)]


class Oracle(unittest.TestCase):
    def compare(self, cases, may_refuse=False):
        """Returns the answers and the number of those that are texts."""
        answers = oracle.rendered(BINARIES, cases)
        self.assertEqual(len(answers), len(cases))
        different, refused, texts = [], 0, 0
        for (template, variables), ours in zip(cases, answers):
            texts += "text" in ours
            if may_refuse and REFUSED.search(ours.get("error", "")):
                refused += 1
                continue
            found = oracle.difference(template, variables, ours)
            if found is not None and not (may_refuse and NOT_COMPARABLE.search(found)):
                different.append(found)
        self.assertFalse(different,
                         f"{len(different)} of {len(cases)} differ:\n" + "\n\n".join(different[:5]))
        self.assertLess(refused, len(cases) / 20 + 1)
        return answers, texts

    def test_snippets(self):
        expressions = [("{{ " + text + " }}", snippets.VARIABLES) for text in snippets.EXPRESSIONS]
        self.compare(expressions + [(text, snippets.VARIABLES) for text in snippets.TEMPLATES])

    def test_chats(self):
        cases = []
        for path in TEMPLATES:
            template = path.read_text(encoding="utf-8")
            rng = random.Random(path.name)
            cases += [(template, chats.variables(rng)) for _ in range(CHATS)]
        answers, texts = self.compare(cases)
        print(f"{len(cases)} chats, {texts} of them texts")
        self.assertGreater(texts, len(cases) / 2)
        self.check_marks(answers)

    def check_marks(self, answers):
        """Text that occurs only in the request is marked as the request's, wherever a template
        moved it."""
        seen = 0
        for answer in answers:
            marked, at = [], 0
            for part, from_request in answer.get("parts", []):
                if from_request:
                    marked.append((at, at + len(part)))
                at += len(part)
            for begin, end in spans_of(answer.get("text", ""), chats.FOREIGN):
                seen += 1
                self.assertTrue(any(a <= begin and end <= b for a, b in marked), answer)
        self.assertGreater(seen, 1000)

    def test_random_templates(self):
        rng = random.Random(20240726)
        cases = [(random_templates.template(rng), snippets.VARIABLES)
                 for _ in range(RANDOM_TEMPLATES)]
        _, texts = self.compare(cases, may_refuse=True)
        print(f"{len(cases)} random templates, {texts} of them texts")
        self.assertGreater(texts, len(cases) / 10)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
