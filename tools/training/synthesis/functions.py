"""Small Python functions with docstrings whose doctests pass.

A function is put together from parts: over a list (which elements, what of each, what
of all together), over a text, over a dict, over numbers. The same task comes with
different names, wordings and ways to write the body. The examples in the docstring are
what the function returned when the generator ran it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from .document import Document, in_split

WORDS = """apple river stone cloud tiger lamp green happy winter garden paper music window orange
silver puzzle castle rabbit summer table bridge candle forest planet yellow basket button coffee
dragon engine flower guitar hammer island jacket kitten lemon monkey needle ocean pencil queen
rocket school ticket violin wagon zebra level noon radar kayak bread chair dance eagle
fruit""".split()
KEYS = "a b c d x y z one two red blue apple pear tom ann".split()


class Task(NamedTuple):
    key: tuple  # what is computed; decides the split
    names: list[str]  # function names to choose from
    signature: str  # the parameters
    doc: list[str]  # docstrings to choose from
    bodies: list[str]  # bodies to choose from, indented by four spaces
    arguments: Callable[[random.Random], str]  # an example's arguments


# Which elements: condition on {v}, words, part of the name.
FILTERS = [
    ("{v} % 2 == 0", "even numbers", "even"),
    ("{v} % 2 == 1", "odd numbers", "odd"),
    ("{v} > 0", "positive numbers", "positive"),
    ("{v} < 0", "negative numbers", "negative"),
    ("{v} > {k}", "numbers greater than {k}", "above_{k}"),
    ("{v} < {k}", "numbers less than {k}", "below_{k}"),
    ("{v} >= {k}", "numbers that are at least {k}", "at_least_{k}"),
    ("{v} <= {k}", "numbers that are at most {k}", "at_most_{k}"),
    ("{v} % {m} == 0", "multiples of {m}", "multiples_of_{m}"),
    ("{v} % {m} != 0", "numbers that {m} does not divide", "not_multiples_of_{m}"),
    ("{v} != 0", "nonzero numbers", "nonzero"),
    ("{v} != {k}", "numbers other than {k}", "not_{k}"),
    (None, "numbers", "all"),
]
# What of each element: expression, words for "the ... of the numbers", part of the name.
MAPS = [
    ("{v}", "", ""),
    ("{v} ** 2", "squares of the ", "squares"),
    ("{v} ** 3", "cubes of the ", "cubes"),
    ("{v} * 2", "doubles of the ", "doubles"),
    ("{v} * {c}", "products with {c} of the ", "times_{c}"),
    ("-{v}", "opposites of the ", "opposites"),
    ("abs({v})", "absolute values of the ", "absolute_values"),
    ("{v} + {c}", "sums with {c} of the ", "plus_{c}"),
    ("{v} // {m}", "quotients by {m} of the ", "over_{m}"),
    ("{v} % {m}", "remainders by {m} of the ", "mod_{m}"),
]
# What of all: name part, words, one-line body, loop start, loop line, loop end.
REDUCES = [
    (
        "list",
        "Return a list of the {what}.",
        "return [{e} for {v} in {s}{if_}]",
        "result = []",
        "result.append({e})",
        "return result",
    ),
    (
        "sum",
        "Return the sum of the {what}.",
        "return sum({e} for {v} in {s}{if_})",
        "total = 0",
        "total += {e}",
        "return total",
    ),
    (
        "count",
        "Return how many different values the {what} have.",
        "return len({{{e} for {v} in {s}{if_}}})",
        "seen = set()",
        "seen.add({e})",
        "return len(seen)",
    ),
    (
        "max",
        "Return the largest of the {what}, or None.",
        "return max(({e} for {v} in {s}{if_}), default=None)",
        "best = None",
        "if best is None or {e} > best:\n{i}    best = {e}",
        "return best",
    ),
    (
        "min",
        "Return the smallest of the {what}, or None.",
        "return min(({e} for {v} in {s}{if_}), default=None)",
        "best = None",
        "if best is None or {e} < best:\n{i}    best = {e}",
        "return best",
    ),
    (
        "sorted",
        "Return the {what} in ascending order.",
        "return sorted({e} for {v} in {s}{if_})",
        "result = []",
        "result.append({e})",
        "result.sort()\n    return result",
    ),
    (
        "first",
        "Return the first of the {what}, or None.",
        "return next(({e} for {v} in {s}{if_}), None)",
        "",
        "return {e}",
        "return None",
    ),
    (
        "last",
        "Return the last of the {what}, or None.",
        None,
        "last = None",
        "last = {e}",
        "return last",
    ),
]
LISTS = ["numbers", "values", "items", "nums", "data", "xs"]
ELEMENTS = {"numbers": "n", "values": "v", "items": "x", "nums": "n", "data": "x", "xs": "x"}


def int_list(
    rng: random.Random, low: int = -9, high: int = 20, least: int = 3, most: int = 6
) -> str:
    return str([rng.randint(low, high) for _ in range(rng.randint(least, most))])


def word_list(rng: random.Random) -> str:
    return repr(rng.sample(WORDS, rng.randint(2, 5)))


def list_task(rng: random.Random) -> Task:
    k, m, c = rng.randint(1, 12), rng.randint(3, 7), rng.randint(3, 10)
    condition, words, fname = rng.choice(FILTERS)
    e, of, mname = rng.choice(MAPS)
    rname, doc, line, start, step, end = rng.choice(REDUCES)
    s = rng.choice(LISTS)
    v = ELEMENTS[s]
    fill = {"k": k, "m": m, "c": c, "v": v, "s": s}
    condition = condition and condition.format(**fill)
    e = e.format(**fill)
    what = (of + words).format(**fill)
    shown = what.replace("numbers", s) if rng.random() < 0.3 and s in ("values", "items") else what
    parts = [p.format(**fill) for p in (rname, mname, fname) if p]
    inner = " " * (12 if condition else 8)
    loop = "    " + start + "\n" if start else ""
    loop += f"    for {v} in {s}:\n"
    if condition:
        loop += f"        if {condition}:\n"
    loop += inner + step.format(e=e, i=inner) + f"\n    {end}\n"
    bodies = [loop]
    if line:
        short = line.format(e=e, v=v, s=s, if_=f" if {condition}" if condition else "")
        bodies.append(f"    {short}\n")
    return Task(
        (
            "list",
            rname,
            mname,
            fname,
            k if "{k}" in fname else 0,
            m if "{m}" in fname + mname else 0,
            c if "{c}" in mname else 0,
        ),
        ["_".join(parts), "_".join([rname] + parts[1:][::-1]), "_".join(["get"] + parts)],
        s,
        [doc.format(what=shown) + (" The list may be empty." if rng.random() < 0.05 else "")],
        bodies,
        int_list,
    )


# key, names, docs, bodies with {t} for the text.
TEXT_TASKS = [
    (
        "count_char",
        ["count_{c}", "how_many_{c}", "number_of_{c}"],
        ["Return how often the letter {c} occurs in {t}.", "Count the letter {c} in {t}."],
        [
            "return {t}.count('{c}')",
            "total = 0\nfor ch in {t}:\n    if ch == '{c}':\n        total += 1\nreturn total",
            "return sum(1 for ch in {t} if ch == '{c}')",
        ],
    ),
    (
        "remove_char",
        ["remove_{c}", "without_{c}", "drop_{c}"],
        ["Return {t} without the letter {c}.", "Remove every {c} from {t}."],
        [
            "return {t}.replace('{c}', '')",
            "return ''.join(ch for ch in {t} if ch != '{c}')",
            "result = ''\nfor ch in {t}:\n    if ch != '{c}':\n        result += ch\nreturn result",
        ],
    ),
    (
        "swap_char",
        ["replace_{c}_with_{d}", "swap_{c}_for_{d}"],
        ["Return {t} with every {c} replaced by {d}.", "Replace each {c} in {t} by {d}."],
        [
            "return {t}.replace('{c}', '{d}')",
            "return ''.join('{d}' if ch == '{c}' else ch for ch in {t})",
        ],
    ),
    (
        "starts",
        ["starts_with_{c}", "begins_with_{c}"],
        ["Return True if {t} starts with the letter {c}.", "Check whether {t} begins with {c}."],
        ["return {t}.startswith('{c}')", "return {t}[:1] == '{c}'"],
    ),
    (
        "ends",
        ["ends_with_{c}"],
        [
            "Return True if {t} ends with the letter {c}.",
            "Check whether the last letter of {t} is {c}.",
        ],
        ["return {t}.endswith('{c}')", "return {t}[-1:] == '{c}'"],
    ),
    (
        "contains",
        ["contains_{c}", "has_{c}"],
        ["Return True if the letter {c} occurs in {t}.", "Check whether {t} contains {c}."],
        [
            "return '{c}' in {t}",
            "for ch in {t}:\n    if ch == '{c}':\n        return True\nreturn False",
        ],
    ),
    (
        "first_n",
        ["first_{k}_chars", "prefix_{k}"],
        ["Return the first {k} characters of {t}."],
        ["return {t}[:{k}]"],
    ),
    (
        "last_n",
        ["last_{k}_chars", "suffix_{k}"],
        ["Return the last {k} characters of {t}."],
        ["return {t}[-{k}:]"],
    ),
    (
        "repeat",
        ["repeat_{k}_times", "repeated_{k}"],
        ["Return {t} repeated {k} times.", "Repeat {t} {k} times."],
        ["return {t} * {k}", "result = ''\nfor _ in range({k}):\n    result += {t}\nreturn result"],
    ),
    (
        "every_kth",
        ["every_{k}th_char"],
        ["Return every character of {t} whose index is a multiple of {k}."],
        ["return {t}[::{k}]", "return ''.join(ch for i, ch in enumerate({t}) if i % {k} == 0)"],
    ),
    (
        "pad",
        ["pad_to_{k}"],
        ["Pad {t} with spaces on the right to {k} characters."],
        ["return {t}.ljust({k})", "while len({t}) < {k}:\n    {t} += ' '\nreturn {t}"],
    ),
    (
        "longer",
        ["longer_than_{k}"],
        ["Return True if {t} has more than {k} characters."],
        ["return len({t}) > {k}"],
    ),
    (
        "surround",
        ["surround_with_{d}", "wrap_in_{d}"],
        ["Put the letter {d} before and after {t}."],
        ["return '{d}' + {t} + '{d}'", "return f'{d}{{{t}}}{d}'"],
    ),
    (
        "index_of",
        ["index_of_{c}", "find_{c}"],
        ["Return the index of the first {c} in {t}, or -1."],
        [
            "return {t}.find('{c}')",
            "for i, ch in enumerate({t}):\n    if ch == '{c}':\n        return i\nreturn -1",
        ],
    ),
    ("split_at", ["split_at_{c}"], ["Split {t} at every letter {c}."], ["return {t}.split('{c}')"]),
    (
        "reverse",
        ["reverse_text", "reversed_text", "backwards"],
        ["Return {t} in reverse.", "Return the characters of {t} from last to first."],
        [
            "return {t}[::-1]",
            "return ''.join(reversed({t}))",
            "result = ''\nfor ch in {t}:\n    result = ch + result\nreturn result",
        ],
    ),
    (
        "palindrome",
        ["is_palindrome", "same_backwards"],
        ["Return True if {t} reads the same backwards."],
        [
            "return {t} == {t}[::-1]",
            "left, right = 0, len({t}) - 1\nwhile left < right:\n    if {t}[left] != "
            "{t}[right]:\n        return False\n    left += 1\n    right -= 1\nreturn True",
        ],
    ),
    (
        "vowels",
        ["count_vowels", "number_of_vowels"],
        ["Return the number of vowels in {t}.", "Count the vowels in {t}."],
        [
            "return sum(1 for ch in {t} if ch in 'aeiou')",
            "total = 0\nfor ch in {t}:\n    if ch in 'aeiou':\n        total += 1\nreturn total",
        ],
    ),
    (
        "consonants",
        ["remove_vowels", "without_vowels"],
        ["Return {t} without its vowels."],
        ["return ''.join(ch for ch in {t} if ch not in 'aeiou')"],
    ),
    (
        "upper",
        ["shout", "to_upper", "uppercase"],
        ["Return {t} in capital letters."],
        ["return {t}.upper()"],
    ),
    (
        "capital",
        ["capitalize_first"],
        ["Return {t} with a capital first letter."],
        ["return {t}[:1].upper() + {t}[1:]", "return {t}.capitalize()"],
    ),
    (
        "length",
        ["text_length", "count_characters"],
        ["Return the number of characters in {t}."],
        ["return len({t})", "count = 0\nfor _ in {t}:\n    count += 1\nreturn count"],
    ),
    (
        "unique",
        ["unique_letters", "distinct_letters"],
        ["Return the different letters of {t} in alphabetical order."],
        ["return ''.join(sorted(set({t})))"],
    ),
    (
        "sorted",
        ["sort_letters", "sorted_letters"],
        ["Return the letters of {t} in alphabetical order."],
        ["return ''.join(sorted({t}))"],
    ),
    (
        "double",
        ["double_letters"],
        ["Return {t} with every letter doubled."],
        [
            "return ''.join(ch * 2 for ch in {t})",
            "result = ''\nfor ch in {t}:\n    result += ch + ch\nreturn result",
        ],
    ),
    (
        "middle",
        ["middle_letter", "middle_char"],
        ["Return the middle character of {t}."],
        ["return {t}[len({t}) // 2]"],
    ),
    (
        "first_last",
        ["first_and_last", "both_ends"],
        ["Return the first and the last character of {t}."],
        ["return {t}[0] + {t}[-1]"],
    ),
    (
        "swap_ends",
        ["swap_ends"],
        ["Return {t} with the first and last characters swapped."],
        ["return {t}[-1] + {t}[1:-1] + {t}[0]"],
    ),
    (
        "codes",
        ["char_codes", "code_points"],
        ["Return the code of each character in {t}."],
        ["return [ord(ch) for ch in {t}]"],
    ),
    (
        "most",
        ["most_common_letter"],
        ["Return the letter that occurs most often in {t}."],
        ["return max(sorted(set({t})), key={t}.count)"],
    ),
    (
        "letter_counts",
        ["letter_counts", "count_letters"],
        ["Return a dict from each letter of {t} to its count."],
        [
            "counts = {{}}\nfor ch in {t}:\n    counts[ch] = counts.get(ch, 0) + 1\nreturn counts",
            "return {{ch: {t}.count(ch) for ch in {t}}}",
        ],
    ),
]
WORD_TASKS = [
    (
        "longest",
        ["longest_word", "find_longest"],
        ["Return the longest word in {t}."],
        [
            "return max({t}, key=len)",
            "best = {t}[0]\nfor word in {t}:\n    if len(word) > len(best):\n        best = "
            "word\nreturn best",
        ],
    ),
    (
        "shortest",
        ["shortest_word", "find_shortest"],
        ["Return the shortest word in {t}."],
        [
            "return min({t}, key=len)",
            "best = {t}[0]\nfor word in {t}:\n    if len(word) < len(best):\n        best = "
            "word\nreturn best",
        ],
    ),
    (
        "lengths",
        ["word_lengths", "lengths"],
        ["Return the length of each word in {t}."],
        [
            "return [len(word) for word in {t}]",
            "result = []\nfor word in {t}:\n    result.append(len(word))\nreturn result",
        ],
    ),
    (
        "join",
        ["join_with_{sep}", "joined_by_{sep}"],
        ["Join {t} with '{j}' between them."],
        ["return '{j}'.join({t})"],
    ),
    (
        "longer",
        ["words_longer_than_{k}", "long_words_{k}"],
        ["Return the words in {t} with more than {k} letters."],
        [
            "return [word for word in {t} if len(word) > {k}]",
            "result = []\nfor word in {t}:\n    if len(word) > {k}:\n        "
            "result.append(word)\nreturn result",
        ],
    ),
    (
        "starting",
        ["words_starting_with_{c}", "starting_with_{c}"],
        ["Return the words in {t} that start with {c}."],
        [
            "return [word for word in {t} if word.startswith('{c}')]",
            "result = []\nfor word in {t}:\n    if word.startswith('{c}'):\n        "
            "result.append(word)\nreturn result",
        ],
    ),
    (
        "containing",
        ["words_containing_{c}", "words_with_{c}"],
        ["Return the words in {t} that contain {c}."],
        ["return [word for word in {t} if '{c}' in word]"],
    ),
    (
        "initials",
        ["initials", "first_letters"],
        ["Return the first letter of each word in {t}."],
        ["return [word[0] for word in {t}]", "return ''.join(word[0] for word in {t})"][:1],
    ),
    (
        "capitalize",
        ["capitalize_words", "capitalize_all"],
        ["Return the words in {t} with capital first letters."],
        ["return [word.capitalize() for word in {t}]"],
    ),
    (
        "upper",
        ["upper_words", "all_upper"],
        ["Return the words in {t} in capital letters."],
        ["return [word.upper() for word in {t}]"],
    ),
    (
        "reverse_each",
        ["reverse_each", "reverse_words"],
        ["Return {t} with each word reversed."],
        ["return [word[::-1] for word in {t}]"],
    ),
    (
        "sort_len",
        ["sort_by_length", "by_length"],
        ["Return {t} sorted by length."],
        ["return sorted({t}, key=len)"],
    ),
    (
        "sort_az",
        ["sort_words", "alphabetical"],
        ["Return {t} in alphabetical order."],
        ["return sorted({t})", "result = list({t})\nresult.sort()\nreturn result"],
    ),
    (
        "len_dict",
        ["length_by_word", "map_lengths"],
        ["Return a dict from each word in {t} to its length."],
        [
            "return {{word: len(word) for word in {t}}}",
            "result = {{}}\nfor word in {t}:\n    result[word] = len(word)\nreturn result",
        ],
    ),
    (
        "total_len",
        ["total_length", "count_letters"],
        ["Return the number of letters in all {t} together."],
        ["return sum(len(word) for word in {t})", "return len(''.join({t}))"],
    ),
    (
        "numbered",
        ["number_words", "numbered"],
        ["Return each word in {t} with its number, from 1."],
        ["return [f'{{i}}. {{word}}' for i, word in enumerate({t}, 1)]"],
    ),
    (
        "group",
        ["group_by_first", "by_first_letter"],
        ["Group {t} by first letter."],
        [
            "groups = {{}}\nfor word in {t}:\n    groups.setdefault(word[0], "
            "[]).append(word)\nreturn groups"
        ],
    ),
    (
        "add_suffix",
        ["add_{d}", "append_{d}"],
        ["Return each word in {t} with {d} at its end."],
        ["return [word + '{d}' for word in {t}]"],
    ),
]
LIST_TASKS = [
    (
        "reverse",
        ["reverse_list", "reversed_list"],
        ["Return {t} in reverse order."],
        ["return {t}[::-1]", "return list(reversed({t}))"],
    ),
    (
        "first_n",
        ["first_{k}", "take_{k}"],
        ["Return the first {k} elements of {t}."],
        ["return {t}[:{k}]"],
    ),
    (
        "last_n",
        ["last_{k}", "tail_{k}"],
        ["Return the last {k} elements of {t}."],
        ["return {t}[-{k}:]"],
    ),
    (
        "skip_n",
        ["skip_{k}", "drop_first_{k}"],
        ["Return {t} without its first {k} elements."],
        ["return {t}[{k}:]"],
    ),
    (
        "every",
        ["every_{k}th", "step_by_{k}"],
        ["Return every element of {t} whose index is a multiple of {k}."],
        ["return {t}[::{k}]", "return [x for i, x in enumerate({t}) if i % {k} == 0]"],
    ),
    (
        "rotate",
        ["rotate_left_{k}", "rotate_by_{k}"],
        ["Rotate {t} to the left by {k}."],
        ["return {t}[{k}:] + {t}[:{k}]"],
    ),
    (
        "append",
        ["append_{k}", "with_{k}_at_end"],
        ["Return {t} with {k} added at the end."],
        ["return {t} + [{k}]"],
    ),
    (
        "prepend",
        ["prepend_{k}", "with_{k}_first"],
        ["Return {t} with {k} added at the front."],
        ["return [{k}] + {t}"],
    ),
    (
        "contains",
        ["contains_{k}", "has_{k}"],
        ["Return True if {k} is in {t}."],
        ["return {k} in {t}", "for x in {t}:\n    if x == {k}:\n        return True\nreturn False"],
    ),
    (
        "count",
        ["count_{k}", "occurrences_of_{k}"],
        ["Return how often {k} occurs in {t}."],
        [
            "return {t}.count({k})",
            "count = 0\nfor x in {t}:\n    if x == {k}:\n        count += 1\nreturn count",
        ],
    ),
    (
        "remove",
        ["remove_{k}", "without_{k}"],
        ["Return {t} without any {k}."],
        ["return [x for x in {t} if x != {k}]"],
    ),
    (
        "chunk",
        ["chunks_of_{k}", "split_by_{k}"],
        ["Split {t} into lists of {k} elements."],
        ["return [{t}[i:i + {k}] for i in range(0, len({t}), {k})]"],
    ),
    (
        "dedupe",
        ["unique", "remove_duplicates"],
        ["Return {t} without duplicates, in the same order."],
        [
            "result = []\nfor x in {t}:\n    if x not in result:\n        "
            "result.append(x)\nreturn result",
            "return list(dict.fromkeys({t}))",
        ],
    ),
    (
        "running",
        ["running_totals", "cumulative_sums"],
        ["Return the running totals of {t}."],
        [
            "total = 0\nresult = []\nfor x in {t}:\n    total += x\n    "
            "result.append(total)\nreturn result"
        ],
    ),
    (
        "differences",
        ["differences", "steps_between"],
        ["Return the differences between neighbors in {t}."],
        [
            "return [b - a for a, b in zip({t}, {t}[1:])]",
            "result = []\nfor i in range(1, len({t})):\n    result.append({t}[i] - {t}[i - "
            "1])\nreturn result",
        ],
    ),
    (
        "pairs",
        ["neighbor_pairs", "adjacent_pairs"],
        ["Return the pairs of neighbors in {t}."],
        ["return list(zip({t}, {t}[1:]))"],
    ),
    ("mean", ["average", "mean"], ["Return the average of {t}."], ["return sum({t}) / len({t})"]),
    (
        "range",
        ["spread", "value_range"],
        ["Return the difference between the largest and the smallest of {t}."],
        ["return max({t}) - min({t})"],
    ),
    (
        "sorted?",
        ["is_sorted", "is_ascending"],
        ["Return True if {t} is in ascending order."],
        [
            "return {t} == sorted({t})",
            "for a, b in zip({t}, {t}[1:]):\n    if a > b:\n        return False\nreturn True",
        ],
    ),
    (
        "second",
        ["second_largest", "runner_up"],
        ["Return the second largest value in {t}."],
        ["return sorted({t})[-2]"],
    ),
    (
        "argmax",
        ["index_of_max", "argmax"],
        ["Return the index of the largest value in {t}."],
        [
            "return {t}.index(max({t}))",
            "best = 0\nfor i, x in enumerate({t}):\n    if x > {t}[best]:\n        best = "
            "i\nreturn best",
        ],
    ),
    (
        "product",
        ["product", "multiply_all"],
        ["Return the product of {t}."],
        ["result = 1\nfor x in {t}:\n    result *= x\nreturn result"],
    ),
    (
        "ends",
        ["first_and_last", "ends"],
        ["Return the first and the last element of {t}."],
        ["return {t}[0], {t}[-1]", "return ({t}[0], {t}[-1])"],
    ),
    (
        "all_above",
        ["all_above_{k}", "are_all_above_{k}"],
        ["Return True if all of {t} are greater than {k}."],
        [
            "return all(x > {k} for x in {t})",
            "for x in {t}:\n    if x <= {k}:\n        return False\nreturn True",
        ],
    ),
    (
        "any_above",
        ["any_above_{k}", "is_any_above_{k}"],
        ["Return True if any of {t} is greater than {k}."],
        [
            "return any(x > {k} for x in {t})",
            "for x in {t}:\n    if x > {k}:\n        return True\nreturn False",
        ],
    ),
    (
        "clip",
        ["cap_at_{k}", "limit_to_{k}"],
        ["Return {t} with every value above {k} set to {k}."],
        ["return [min(x, {k}) for x in {t}]"],
    ),
    (
        "indices",
        ["indices_of_{k}", "positions_of_{k}"],
        ["Return the indices at which {t} has {k}."],
        ["return [i for i, x in enumerate({t}) if x == {k}]"],
    ),
    (
        "minmax",
        ["min_and_max", "extremes"],
        ["Return the smallest and the largest of {t}."],
        ["return min({t}), max({t})", "return (min({t}), max({t}))"],
    ),
]
DICT_TASKS = [
    (
        "invert",
        ["invert", "swap_keys_and_values"],
        ["Return a dict with keys and values of {t} swapped."],
        [
            "return {{value: key for key, value in {t}.items()}}",
            "result = {{}}\nfor key, value in {t}.items():\n    result[value] = key\nreturn result",
        ],
    ),
    (
        "above",
        ["keys_above_{k}", "keys_over_{k}"],
        ["Return the keys of {t} whose values are greater than {k}."],
        [
            "return [key for key, value in {t}.items() if value > {k}]",
            "result = []\nfor key, value in {t}.items():\n    if value > {k}:\n        "
            "result.append(key)\nreturn result",
        ],
    ),
    (
        "keep",
        ["keep_above_{k}", "filter_above_{k}"],
        ["Return the items of {t} whose values are greater than {k}."],
        ["return {{key: value for key, value in {t}.items() if value > {k}}}"],
    ),
    (
        "total",
        ["total_value", "sum_values"],
        ["Return the sum of the values of {t}."],
        [
            "return sum({t}.values())",
            "total = 0\nfor value in {t}.values():\n    total += value\nreturn total",
        ],
    ),
    (
        "best",
        ["key_of_max", "best_key"],
        ["Return the key with the largest value in {t}."],
        ["return max({t}, key={t}.get)"],
    ),
    (
        "worst",
        ["key_of_min", "worst_key"],
        ["Return the key with the smallest value in {t}."],
        ["return min({t}, key={t}.get)"],
    ),
    (
        "keys",
        ["sorted_keys"],
        ["Return the keys of {t} in order."],
        ["return sorted({t})", "return sorted({t}.keys())"],
    ),
    (
        "values",
        ["sorted_values"],
        ["Return the values of {t} in order."],
        ["return sorted({t}.values())"],
    ),
    (
        "add",
        ["add_{k}_to_all", "increase_by_{k}"],
        ["Return {t} with {k} added to every value."],
        ["return {{key: value + {k} for key, value in {t}.items()}}"],
    ),
    (
        "times",
        ["multiply_by_{k}", "scale_by_{k}"],
        ["Return {t} with every value multiplied by {k}."],
        ["return {{key: value * {k} for key, value in {t}.items()}}"],
    ),
    (
        "pairs",
        ["to_pairs", "item_list"],
        ["Return the items of {t} as a list of pairs."],
        ["return list({t}.items())"],
    ),
    ("size", ["size", "count_keys"], ["Return the number of keys in {t}."], ["return len({t})"]),
]
NUMBER_TASKS = [
    ("square", "n", ["square"], ["Return the square of n."], ["return n * n", "return n ** 2"]),
    (
        "double",
        "n",
        ["double", "twice"],
        ["Return twice n."],
        ["return 2 * n", "return n * 2", "return n + n"],
    ),
    (
        "times",
        "n",
        ["times_{k}", "multiply_by_{k}"],
        ["Return {k} times n."],
        ["return {k} * n", "return n * {k}"],
    ),
    (
        "plus",
        "n",
        ["add_{k}", "plus_{k}"],
        ["Return n plus {k}.", "Add {k} to n."],
        ["return n + {k}"],
    ),
    (
        "minus",
        "n",
        ["subtract_{k}", "minus_{k}"],
        ["Return n minus {k}.", "Subtract {k} from n."],
        ["return n - {k}"],
    ),
    (
        "linear",
        "n",
        ["times_{k}_plus_{m}"],
        ["Return {k} times n, plus {m}."],
        ["return {k} * n + {m}"],
    ),
    ("even", "n", ["is_even"], ["Return True if n is even."], ["return n % 2 == 0"]),
    ("odd", "n", ["is_odd"], ["Return True if n is odd."], ["return n % 2 == 1"]),
    (
        "multiple",
        "n",
        ["is_multiple_of_{k}", "divisible_by_{k}"],
        ["Return True if n is a multiple of {k}.", "Check whether {k} divides n."],
        ["return n % {k} == 0"],
    ),
    (
        "sign",
        "n",
        ["sign"],
        ["Return 1, 0 or -1, the sign of n."],
        ["if n > 0:\n    return 1\nif n < 0:\n    return -1\nreturn 0"],
    ),
    (
        "clamp",
        "n",
        ["limit_to_{k}", "at_most_{k}"],
        ["Return n, but at most {k}."],
        ["return min(n, {k})", "if n > {k}:\n    return {k}\nreturn n"],
    ),
    (
        "floor",
        "n",
        ["at_least_{k}"],
        ["Return n, but at least {k}."],
        ["return max(n, {k})", "if n < {k}:\n    return {k}\nreturn n"],
    ),
    (
        "factorial",
        "n",
        ["factorial"],
        ["Return the factorial of n."],
        [
            "result = 1\nfor i in range(2, n + 1):\n    result *= i\nreturn result",
            "if n <= 1:\n    return 1\nreturn n * {name}(n - 1)",
        ],
    ),
    (
        "sum_to",
        "n",
        ["sum_to", "sum_up_to"],
        ["Return the sum of the numbers from 1 to n."],
        [
            "return n * (n + 1) // 2",
            "return sum(range(1, n + 1))",
            "total = 0\nfor i in range(1, n + 1):\n    total += i\nreturn total",
        ],
    ),
    (
        "digits",
        "n",
        ["digit_sum", "sum_digits"],
        ["Return the sum of the digits of n."],
        [
            "return sum(int(d) for d in str(n))",
            "total = 0\nwhile n > 0:\n    total += n % 10\n    n //= 10\nreturn total",
        ],
    ),
    (
        "count_digits",
        "n",
        ["count_digits", "number_of_digits"],
        ["Return the number of digits of n."],
        ["return len(str(n))"],
    ),
    (
        "divisors",
        "n",
        ["divisors", "factors"],
        ["Return the divisors of n."],
        [
            "return [d for d in range(1, n + 1) if n % d == 0]",
            "result = []\nfor d in range(1, n + 1):\n    if n % d == 0:\n        "
            "result.append(d)\nreturn result",
        ],
    ),
    (
        "prime",
        "n",
        ["is_prime"],
        ["Return True if n is a prime number."],
        [
            "if n < 2:\n    return False\nfor d in range(2, n):\n    if n % d == 0:\n        "
            "return False\nreturn True",
            "return n > 1 and all(n % d for d in range(2, n))",
        ],
    ),
    (
        "fib",
        "n",
        ["fibonacci", "fib"],
        ["Return the n-th Fibonacci number."],
        ["a, b = 0, 1\nfor _ in range(n):\n    a, b = b, a + b\nreturn a"],
    ),
    (
        "countdown",
        "n",
        ["countdown"],
        ["Return the numbers from n down to 1."],
        ["return list(range(n, 0, -1))"],
    ),
    (
        "multiples",
        "n",
        ["first_multiples_of_{k}", "multiples_of_{k}"],
        ["Return the first n multiples of {k}."],
        ["return [{k} * i for i in range(1, n + 1)]"],
    ),
    (
        "binary",
        "n",
        ["to_binary", "binary"],
        ["Return n in binary digits."],
        ["return bin(n)[2:]", "return format(n, 'b')"],
    ),
    (
        "table",
        "n",
        ["table_to_{k}"],
        ["Return n times 1, 2 and so on up to {k}."],
        ["return [n * i for i in range(1, {k} + 1)]"],
    ),
    (
        "fizz",
        "n",
        ["fizz_{k}"],
        ["Return 'fizz' if n is a multiple of {k}, else n as text."],
        [
            "if n % {k} == 0:\n    return 'fizz'\nreturn str(n)",
            "return 'fizz' if n % {k} == 0 else str(n)",
        ],
    ),
    (
        "power",
        "n",
        ["power_of_{k}", "{k}_to_the"],
        ["Return {k} to the power of n."],
        ["return {k} ** n"],
    ),
    ("add2", "a, b", ["add", "sum_of_two"], ["Return the sum of a and b."], ["return a + b"]),
    (
        "diff",
        "a, b",
        ["distance", "abs_difference"],
        ["Return the distance between a and b."],
        ["return abs(a - b)", "if a > b:\n    return a - b\nreturn b - a"],
    ),
    (
        "larger",
        "a, b",
        ["larger", "max_of_two"],
        ["Return the larger of a and b."],
        ["return max(a, b)", "return a if a > b else b", "if a > b:\n    return a\nreturn b"],
    ),
    (
        "smaller",
        "a, b",
        ["smaller", "min_of_two"],
        ["Return the smaller of a and b."],
        ["return min(a, b)", "return a if a < b else b"],
    ),
    (
        "product",
        "a, b",
        ["multiply", "product_of_two"],
        ["Return the product of a and b."],
        ["return a * b"],
    ),
    (
        "area",
        "width, height",
        ["area", "rectangle_area"],
        ["Return the area of a rectangle."],
        ["return width * height"],
    ),
    (
        "perimeter",
        "width, height",
        ["perimeter", "rectangle_perimeter"],
        ["Return the perimeter of a rectangle."],
        ["return 2 * (width + height)"],
    ),
    (
        "gcd",
        "a, b",
        ["gcd", "greatest_common_divisor"],
        ["Return the greatest common divisor of a and b."],
        ["while b:\n    a, b = b, a % b\nreturn a"],
    ),
    (
        "between",
        "a, b",
        ["numbers_between"],
        ["Return the numbers from a to b, both included."],
        ["return list(range(a, b + 1))"],
    ),
    (
        "mix",
        "a, b",
        ["{k}_a_plus_{m}_b"],
        ["Return {k} times a plus {m} times b."],
        ["return {k} * a + {m} * b"],
    ),
    (
        "same_rest",
        "a, b",
        ["same_remainder_by_{k}"],
        ["Return True if a and b leave the same remainder when divided by {k}."],
        ["return a % {k} == b % {k}"],
    ),
]


def _text(rng: random.Random) -> str:
    return repr(rng.choice(WORDS) if rng.random() < 0.7 else " ".join(rng.sample(WORDS, 2)))


def _dict(rng: random.Random) -> str:
    values = rng.sample(range(1, 16), rng.randint(2, 4))
    return repr(dict(zip(rng.sample(KEYS, len(values)), values)))


def _numbers(rng: random.Random, count: int) -> str:
    return ", ".join(str(n) for n in sorted(rng.randint(1, 12) for _ in range(count)))


GROUPS = [
    ("text", TEXT_TASKS, ["text", "s", "string", "word", "line"], _text),
    ("words", WORD_TASKS, ["words", "names", "strings"], word_list),
    (
        "items",
        LIST_TASKS,
        ["numbers", "values", "items", "data"],
        lambda r: int_list(r, 1, 12, 4, 6),
    ),
    ("dict", DICT_TASKS, ["table", "scores", "prices", "d"], _dict),
]


def table_task(rng: random.Random) -> Task:
    group, tasks, parameters, arguments = rng.choice(GROUPS)
    key, names, docs, bodies = rng.choice(tasks)
    t = rng.choice(parameters)
    sep, j = rng.choice(
        [("comma", ","), ("dash", "-"), ("space", " "), ("plus", "+"), ("slash", "/")]
    )
    fill = {
        "t": t,
        "c": rng.choice("aeiorstnlm"),
        "d": rng.choice("xyzqkvwhub"),
        "k": rng.randint(2, 9),
        "sep": sep,
        "j": j,
    }
    used = "".join(docs)
    return Task(
        (
            group,
            key,
            *(fill[n] for n in ("c", "d", "k", "sep") if "{" + n + "}" in used + names[0]),
        ),
        [n.format(**fill) for n in names],
        t,
        [d.format(**fill) for d in docs],
        [_indent(b.format(**fill)) for b in bodies],
        arguments,
    )


def number_task(rng: random.Random) -> Task:
    key, parameters, names, docs, bodies = rng.choice(NUMBER_TASKS)
    count = len(parameters.split(","))
    k, m = rng.randint(2, 20), rng.randint(2, 9)
    if key in ("power", "table"):
        k = rng.randint(2, 5)
    name = rng.choice(names).format(k=k, m=m)
    if name[0].isdigit():
        name = "mix_" + name
    return Task(
        ("number", key, k if "{k}" in names[0] else 0, m if "{m}" in names[0] else 0),
        [name],
        parameters,
        [d.format(k=k, m=m) for d in docs],
        [_indent(b.format(k=k, m=m, name=name)) for b in bodies],
        lambda r: _numbers(r, count),
    )


def _indent(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.split("\n"))


@lru_cache(maxsize=20_000)
def compiled(source: str, name: str) -> Callable:
    scope: dict = {}
    exec(compile(source, "<generated>", "exec"), scope)  # our own text
    return scope[name]


def examples(
    rng: random.Random, task: Task, name: str, body: str, count: int
) -> list[tuple[str, str]]:
    """Calls and what they returned, as doctest shows it."""
    function = compiled(f"def {name}({task.signature}):\n{body}", name)
    found: list[tuple[str, str]] = []
    for _ in range(8):
        arguments = task.arguments(rng)
        value = function(*eval(f"[{arguments}]"))
        if any(arguments == a for a, _ in found) or len(repr(value)) > 70:
            continue
        if value is None and rng.random() < 0.7:
            continue
        found.append((arguments, repr(value)))
        if len(found) == count:
            break
    return found


def generate(rng: random.Random, split: str) -> Document:
    while True:
        task = rng.choice((list_task, list_task, table_task, table_task, number_task))(rng)
        if not in_split(split, "function", *task.key):
            continue
        name, body = rng.choice(task.names), rng.choice(task.bodies)
        shown = examples(rng, task, name, body, rng.choice((1, 2, 2, 3)))
        if shown:
            break
    doc = rng.choice(task.doc)
    if shown[0][1] == "None":  # doctest shows nothing for None
        shown = [(a, r) for a, r in shown if r != "None"] or [(shown[0][0] + ") is None", "True")]
    calls = "".join(
        f"    >>> {name}({a}" + ("" if a.endswith("is None") else ")") + f"\n    {r}\n"
        for a, r in shown
        if r != "None"
    )
    return Document(
        f'def {name}({task.signature}):\n    """{doc}\n\n{calls}    """\n',
        body.rstrip("\n"),
        {"name": name, "key": ("function", *task.key)},
    )
