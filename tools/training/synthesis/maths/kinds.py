"""The kinds of problem.

Each function tells a problem of `steps` steps and returns its answer. A function's name is part of
the problem's key, which decides the split.
"""

from __future__ import annotations

from collections.abc import Callable

from .problem import Problem
from .vocabulary import (COUNTABLE, DAILY, DID, GOODS, HOLDER, HOLDERS, JOBS, PARTS, THINGS,
                         TIMES)


def operand(p: Problem, op: str, value: int) -> int | None:
    """A second number that suits a value, or None where none does."""
    if op == "+":
        return p.pick(2, 60)
    if op == "-":
        return p.pick(1, value - 1) if value > 3 else None
    if op == "*":
        return p.pick(2, 6) if value <= 12 or value % 10 == 0 and value <= 100 else None
    parts = [d for d in range(2, 13) if value % d == 0 and value // d > 1 and value <= 144]
    return p.choose(parts) if parts else None


CHANGES = {
    "+": [
        ("[Then|Later|After that], {o} gives {him} {k} more.", "{p} has {=} {x} after {o}'s gift."),
        (
            "{cap he} buys {k} more[| at the shop| at the market].",
            "With the new ones, that is {=} {x}.",
        ),
        (
            "{cap he} finds {k} more[ at home| in the garage|].",
            "After finding more, {he} has {=} {x}.",
        ),
        ("The next day {he} gets another {k}.", "The next day {he} has {=} {x}."),
    ],
    "-": [
        ("{cap he} gives {k} of them to {o}.", "After giving some to {o}, {p} has {=} {x}."),
        (
            "{cap he} loses {k} of them[ on the way| in the park|].",
            "After losing some, {he} has {=} {x} left.",
        ),
        ("{cap he} sells {k} of them.", "After selling some, {p} has {=} {x}."),
        ("{o} takes {k} of them.", "After {o} takes some, {he} has {=} {x}."),
    ],
    "*": [
        ("Then {his} collection grows to {times} as many.", "Now {he} has {=} {x}."),
        ("By the end of the month {he} has {times} as many.", "By then {p} has {=} {x}."),
    ],
    "/": [
        ("{cap he} shares them equally among {k} friends.", "Each friend gets {=} {x}."),
        ("{cap he} puts them equally into {k} bags.", "Each bag holds {=} {x}."),
    ],
}


def changes(p: Problem, steps: int) -> int | None:
    """A number of things that changes step by step."""
    value = p.pick(3, 99)
    p.set(x=p.word(COUNTABLE))
    p.say(
        "[{p} has {n} {x}.|{p} [starts|begins] with {n} {x}.|There are {n} {x} in {p}'s "
        "[box|bag|room].|"
        "{p} owns {n} {x}.|{p} collected {n} {x}.]",
        n=value,
    )
    ask = ("[How many {x} does {p} have now?|"
           "How many {x} does {p} have [in the end|then|in total]?|How many {x} are there now?]")
    for step in range(steps):
        last = step == steps - 1
        op = p.word("++--*/" if last else "++--*")
        k = operand(p, op, value)
        if k is None:
            op, k = "+", operand(p, "+", value)
        said, worked = p.word(CHANGES[op])
        p.say(said, k=k, times=TIMES.get(k, ""))
        before, value = value, {"+": value + k, "-": value - k, "*": value * k, "/": value // k}[op]
        p.work(worked, f"{before} {op} {k}", value)
        if op == "/":
            ask = (
                "How many {x} does each friend get?"
                if "friends" in said
                else "How many {x} are in each bag?"
            )
    p.say(ask)
    return value


def packs(p: Problem, steps: int) -> int:
    """So many holders of so many things, then something more."""
    holders = p.word(HOLDERS)
    count, each = p.pick(2, 12), p.pick(2, 12)
    p.set(x=p.word(THINGS), hs=holders, h=HOLDER[holders], n=count, k=each)
    p.say(
        "[{p} has {n} {hs} with {k} {x} in each {h}.|There are {n} {hs} of {x}, and each {h} "
        "holds {k} {x}.|"
        "A shop has {n} {hs}, each with {k} {x}.|{p} fills {n} {hs} with {k} {x} each.]"
    )
    total = count * each
    p.work(
        "[There are {=} {x} in the {hs}.|The {hs} hold {=} {x}.|That makes {=} {x}.]",
        f"{count} * {each}",
        total,
    )
    if steps == 1:
        p.say(
            "[How many {x} are there [in all|altogether|in total]?|What is the total number of "
            "{x}?]"
        )
        return total
    if p.rng.random() < 0.5 and total > 4:
        k = p.pick(1, total - 1)
        p.say("[{k} of the {x} are [broken|sold|given away|lost].|{o} takes {k} {x}.]", k=k)
        p.work("[After that, {=} {x} are left.|So {=} {x} remain.]", f"{total} - {k}", total - k)
        total -= k
    else:
        k = p.pick(2, 50)
        p.say("[{o} brings {k} more {x}.|There are also {k} loose {x}.]", k=k)
        p.work(
            "[With the others there are {=} {x}.|Together that is {=} {x}.]",
            f"{total} + {k}",
            total + k,
        )
        total += k
    if steps == 2:
        p.say("[How many {x} are there now?|How many {x} are there then?]")
        return total
    parts = [d for d in range(2, 11) if total % d == 0 and total <= 120]
    if parts and p.rng.random() < 0.6:
        d = p.choose(parts)
        p.say("The {x} are shared equally by {d} children. How many {x} does each child get?", d=d)
        p.work("Each child gets {=} {x}.", f"{total} / {d}", total // d)
        return total // d
    k = p.pick(2, 40)
    p.say("Then {k} more {x} arrive. How many {x} are there at last?", k=k)
    p.work("At last there are {=} {x}.", f"{total} + {k}", total + k)
    return total + k


def shopping(p: Problem, steps: int) -> int:
    """Prices times counts; a second purchase; change."""
    one, other = p.rng.sample(sorted(GOODS), 2)
    count, price = p.pick(2, 12), p.pick(2, 12)
    p.set(g=one, gs=GOODS[one], n=count, c=price)
    p.say(
        "[{p} buys {n} {gs} for ${c} each.|{cap a g} costs ${c}. {p} buys {n} {gs}.|{p} wants {n} "
        "{gs}. Each {g} costs ${c}.|"
        "At the [shop|market|store], {a g} costs ${c}, and {p} takes {n} of them.]"
    )
    total = count * price
    p.work(
        "[The {gs} cost {=} dollars.|{p} pays {=} dollars for the {gs}.]",
        f"{count} * {price}",
        total,
    )
    if steps == 1:
        p.say(
            "[How much does {p} [pay|spend]?|How many dollars does {p} spend?|What do the {gs} "
            "cost [in total|together]?]"
        )
        return total
    if steps == 3 or p.rng.random() < 0.4:
        k = p.pick(2, 30)
        p.say("{cap he} also buys {a g2} for ${k}.", g2=other, k=k)
        p.work(
            "[With the {g2}, the cost is {=} dollars.|Together with the {g2} that is {=} dollars.]",
            f"{total} + {k}",
            total + k,
        )
        total += k
        if steps == 2:
            p.say("[How much does {p} spend in total?|How much does {p} pay for everything?]")
            return total
    paid = p.choose([b for b in (20, 50, 100, 150, 200) if b > total][:3])
    p.say(
        "[{cap he} pays with ${b}.|{cap he} gives the clerk ${b}.] [How much change does {he} "
        "get?|How much money does {he} get back?]",
        b=paid,
    )
    p.work("{cap he} gets {=} dollars back.", f"{paid} - {total}", paid - total)
    return paid - total


def compare(p: Problem, steps: int) -> int:
    """Two or three people, one's number told by another's."""
    x = p.word(COUNTABLE)
    p.set(x=x)
    kind = p.word(("more", "fewer", "times", "part"))
    n, k = p.pick(4, 60), p.pick(2, 30)
    if kind == "fewer" and k >= n:
        n, k = k + n, n
        p.numbers[-2:] = [n, k]
    if kind == "times":
        n, k = p.pick(2, 12), p.pick(2, 6)
    if kind == "part":
        k = p.pick(2, 5)
        n = k * p.pick(2, 12)
    p.say("{o} has {n} {x}.", n=n)
    said = {
        "more": "{p} has {k} more {x} than {o}.",
        "fewer": "{p} has {k} fewer {x} than {o}.",
        "times": "{p} has {times} as many {x} as {o}.",
        "part": "{p} has {part} as many {x} as {o}.",
    }[kind]
    p.say(said, k=k, times=TIMES.get(k, ""), part=PARTS.get(k, ""))
    value, op = {
        "more": (n + k, "+"),
        "fewer": (n - k, "-"),
        "times": (n * k, "*"),
        "part": (n // k, "/"),
    }[kind]
    p.work("{p} has {=} {x}.", f"{n} {op} {k}", value)
    if steps == 1:
        p.say("How many {x} does {p} have?")
        return value
    total = n + value
    if steps == 2:
        if p.rng.random() < 0.7 or kind in ("more", "fewer"):
            p.say("How many {x} do they have [together|in all|altogether|in total]?")
            p.work(
                "[Together they have {=} {x}.|In total they have {=} {x}.]", f"{n} + {value}", total
            )
            return total
        big, small = max(n, value), min(n, value)
        p.say("How many more {x} does one have than the other?")
        p.work("The difference is {=} {x}.", f"{big} - {small}", big - small)
        return big - small
    m = p.pick(2, 30)
    p.say("{t} has {m} more {x} than {p}. How many {x} do {p} and {t} have together?", m=m)
    p.work("{t} has {=} {x}.", f"{value} + {m}", value + m)
    p.work("{p} and {t} have {=} {x} together.", f"{value} + {value + m}", 2 * value + m)
    return 2 * value + m


def daily(p: Problem, steps: int) -> int:
    """So much a day for so many days, and a goal or a start."""
    verb = p.word(sorted(DAILY))
    each, days = p.pick(2, 12), p.pick(2, 10)
    unit = p.word(("day", "day", "hour", "week"))
    p.set(v=verb, do=DID[verb], x=DAILY[verb], n=each, d=days, u=unit)
    total = each * days
    p.say("[{p} {v} {n} {x} [every|each|a] {u}.|Every {u}, {p} {v} {n} {x}.]")
    p.work(
        "[In {d} {u}s, {p} {v} {=} {x}.|{p} {v} {=} {x} in {d} {u}s.]", f"{each} * {days}", total
    )
    if steps == 1:
        p.say("How many {x} does {he} {do} in {d} {u}s?")
        return total
    p.say("{cap he} does this for {d} {u}s.")
    if p.rng.random() < 0.5:
        k = p.pick(2, 50)
        p.say("{cap he} has already done {k} {x}[ before|].", k=k)
        p.work("With the {k} from before, that is {=} {x}.", f"{total} + {k}", total + k)
        total += k
        ask = "How many {x} is that in all?"
    else:
        goal = total + p.pick(5, 60)
        p.say("{cap his} goal is {g} {x}.", g=goal)
        p.work("To reach the goal, {he} still needs {=} {x}.", f"{goal} - {total}", goal - total)
        total = goal - total
        ask = "How many {x} are still missing?"
    if steps == 2:
        p.say(ask)
        return total
    k = p.pick(2, 9)
    if total > 20:
        k = 2
    p.say("For {o} it is {k} times as many. How many {x} is that[ for {o}|]?", k=k)
    p.work("For {o} it is {=} {x}.", f"{total} * {k}", total * k)
    return total * k


def earnings(p: Problem, steps: int) -> int:
    hours, rate = p.pick(2, 12), p.pick(3, 12)
    p.set(n=rate, h=hours, job=p.word(JOBS))
    total = hours * rate
    p.say(
        "[{p} earns ${n} an hour by {job}.|{p} gets ${n} for every hour of {job}.] [{cap he} "
        "works {h} hours.|One week {he} works for {h} hours.]"
    )
    p.work(
        "[{p} earns {=} dollars.|For the work {he} gets {=} dollars.]", f"{hours} * {rate}", total
    )
    if steps == 1:
        p.say("[How much does {he} earn?|How much money does {p} make?]")
        return total
    k = p.pick(2, total - 1)
    p.say("{cap he} spends ${k} on [lunch|a gift|new shoes|books|a toy|the bus].", k=k)
    p.work(
        "[After that {he} has {=} dollars left.|Then {=} dollars are left.]",
        f"{total} - {k}",
        total - k,
    )
    total -= k
    if steps == 2:
        p.say("How much[ money|] does {he} have left?")
        return total
    m = p.pick(5, 60)
    p.say("{cap he} had saved ${m} before. How much money does {he} have [now|in all]?", m=m)
    p.work("With the savings {he} has {=} dollars.", f"{total} + {m}", total + m)
    return total + m


def travel(p: Problem, steps: int) -> int:
    speed, hours = p.choose([3, 4, 5, 6, 8, 10, 12, 20, 30, 40, 50, 60, 70, 80]), p.pick(2, 9)
    p.set(v=speed, h=hours, how=p.word(("drives", "rides", "travels", "cycles", "sails")))
    total = speed * hours
    p.say("{p} {how} at {v} [miles|kilometers] an hour for {h} hours.")
    unit = "miles" if "miles" in p.story[-1] else "kilometers"
    p.set(u=unit)
    p.work("[{p} covers {=} {u}.|In {h} hours that is {=} {u}.]", f"{speed} * {hours}", total)
    if steps == 1:
        p.say("How [far|many {u}] does {he} [go|travel]?")
        return total
    goal = total + p.pick(5, 90)
    p.say("The whole trip is {g} {u}[ long|].", g=goal)
    p.work(
        "[Then {=} {u} are left.|The rest of the trip is {=} {u}.]",
        f"{goal} - {total}",
        goal - total,
    )
    rest = goal - total
    if steps == 2:
        p.say("How many {u} are left?")
        return rest
    k = p.pick(3, 60)
    p.say("A detour adds {k} {u} to what is left. How many {u} does {he} still have to go?", k=k)
    p.work("With the detour, {=} {u} are left.", f"{rest} + {k}", rest + k)
    return rest + k


def ages(p: Problem, steps: int) -> int:
    n, k = p.pick(5, 40), p.pick(2, 20)
    older = p.rng.random() < 0.6 or k >= n
    p.say(
        "{o} is {n} years old. {p} is {k} years "
        + ("older" if older else "younger")
        + " than {o}.",
        n=n,
        k=k,
    )
    value = n + k if older else n - k
    p.work("{p} is {=} years old.", f"{n} {'+' if older else '-'} {k}", value)
    if steps == 1:
        p.say("How old is {p}?")
        return value
    m = p.pick(2, 15)
    if steps == 3:
        p.say("{t} is {m} years older than {p}. How old are {p} and {t} together?", m=m)
        p.work("{t} is {=} years old.", f"{value} + {m}", value + m)
        p.work("Together they are {=} years old.", f"{value} + {value + m}", 2 * value + m)
        return 2 * value + m
    p.set(m=m)
    p.work("In {m} years {p} will be {=} years old.", f"{value} + {m}", value + m)
    p.say("How old will {p} be in {m} years?")
    return value + m


def sharing(p: Problem, steps: int) -> int:
    """A total split evenly, then a change to a part."""
    d, part = p.pick(2, 12), p.pick(2, 12)
    total = d * part
    p.set(x=p.word(THINGS), n=total, d=d)
    p.say(
        "[{p} has {n} {x} and shares them equally among {d} [children|friends|people].|"
        "{n} {x} are divided equally among {d} [children|friends|people].|"
        "{p} puts {n} {x} into {d} equal groups.]"
    )
    p.work("[Each one gets {=} {x}.|One share is {=} {x}.]", f"{total} / {d}", part)
    if steps == 1:
        p.say("[How many {x} are in one share?|How many {x} is one share?]")
        return part
    k = p.pick(1, 30)
    p.say("{o} gets one share and already had {k} {x}.", k=k)
    p.work("{o} has {=} {x}.", f"{part} + {k}", part + k)
    if steps == 2:
        p.say("How many {x} does {o} have now?")
        return part + k
    m = p.pick(1, part + k - 1)
    p.say("{cap ohe} gives {m} {x} away. How many {x} does {o} have left?", m=m)
    p.work("{o} has {=} {x} left.", f"{part + k} - {m}", part + k - m)
    return part + k - m


def shapes(p: Problem, steps: int) -> int:
    long, wide = p.pick(3, 20), p.pick(2, 12)
    thing = p.word(("garden", "field", "room", "yard", "pool", "park", "carpet", "wall"))
    p.set(a=long, b=wide, s=thing)
    p.say("{p}'s {s} is {a} meters long and {b} meters wide.")
    if steps == 1:
        p.say("[What is the area of the {s} in square meters?|How many square meters is the {s}?]")
        p.work("The area is {=} square meters.", f"{long} * {wide}", long * wide)
        return long * wide
    p.work("Length and width together are {=} meters.", f"{long} + {wide}", long + wide)
    p.work("The way around is {=} meters.", f"{long + wide} * 2", 2 * (long + wide))
    total = 2 * (long + wide)
    if steps == 2:
        p.say("[How many meters is it around the {s}?|What is the perimeter of the {s} in meters?]")
        return total
    k = p.pick(2, 9)
    p.say("{cap he} walks around it {k} times. How many meters does {he} walk?", k=k)
    p.work("{cap he} walks {=} meters.", f"{total} * {k}", total * k)
    return total * k


def fractions(p: Problem, steps: int) -> int:
    d = p.pick(2, 5)
    part = p.pick(2, 20)
    total = d * part
    verb = p.word(("gives away", "eats", "sells", "loses", "uses"))
    p.set(x=p.word(THINGS if verb != "eats" else COUNTABLE[:22]), n=total, part=PARTS[d], v=verb)
    p.say(
        "[{p} has {n} {x} and {v} {part} of them.|{p} has {n} {x}. {cap he} {v} {part} of the "
        "{x}.]"
    )
    p.work("{cap part} of the {x} is {=}.", f"{total} / {d}", part)
    if steps == 1:
        p.say("How many {x} is that?")
        return part
    rest = total - part
    p.work("[Then {he} has {=} {x} left.|So {=} {x} are left.]", f"{total} - {part}", rest)
    if steps == 2:
        p.say("How many {x} are left?")
        return rest
    k = p.pick(2, 40)
    p.say("Then {he} gets {k} more. How many {x} does {he} have [now|at the end]?", k=k)
    p.work("At the end {he} has {=} {x}.", f"{rest} + {k}", rest + k)
    return rest + k


KINDS: list[Callable[[Problem, int], int]] = [
    changes,
    changes,
    packs,
    packs,
    shopping,
    shopping,
    compare,
    compare,
    daily,
    earnings,
    travel,
    ages,
    sharing,
    shapes,
    fractions,
]
