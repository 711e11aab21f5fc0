"""Functions over a text and over a list of words.

Each is (key, names, docstrings, bodies); `{t}` is the parameter, `{c}` and `{d}` letters and
`{k}` a small number.
"""

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
