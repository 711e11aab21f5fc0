"""Functions over a list of numbers and over a dict; see text_templates.py for the fields."""

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
