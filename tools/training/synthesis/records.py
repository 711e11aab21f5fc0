"""JSON records that answer a described request.

The prompt tells the facts in sentences and asks for a JSON object with named keys; the
completion is that object, pretty-printed or on one line as asked.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from .document import Document, in_split
from .grammar import article, expand
from .story_words import FOODS, HOBBIES, PETS, THINGS
from .words import CITIES, COLOURS, MONTHS, WEEKDAYS, person, surname

JOBS = """teacher nurse baker carpenter pilot farmer painter doctor driver cook gardener engineer
librarian singer writer tailor plumber clerk chemist lawyer sailor waiter""".split()
ADJECTIVES = (
    "Quiet Last Golden Hidden Broken Little Silent Lost Secret Blue Winding Empty Bright".split()
)
NOUNS = ("River Garden Tower Letter Island Winter Road Mirror Forest Key Harbor Song Clock "
         "Window").split()
GENRES = ["fantasy", "mystery", "history", "poetry", "adventure", "science", "romance", "travel"]
SKIES = ["sunny", "cloudy", "rainy", "windy", "foggy", "snowy", "stormy", "clear"]
STATES = ["new", "used", "open", "closed", "paid", "pending", "shipped", "delivered"]
GOODS = [row[0] for row in THINGS]

# A field: key, value, the sentence that tells it. `{v}` is the value as people write it.
Field = tuple[str, object, str]


def _date(rng: random.Random) -> tuple[str, str]:
    year, month, day = rng.randint(2015, 2030), rng.randint(1, 12), rng.randint(1, 28)
    return f"{year}-{month:02}-{day:02}", f"{MONTHS[month - 1]} {day}, {year}"


def _time(rng: random.Random) -> str:
    return f"{rng.randint(7, 21):02}:{rng.choice(('00', '15', '30', '45'))}"


def a_person(rng: random.Random, split: str) -> tuple[str, list[Field]]:
    p = person(rng, split)
    name, age, city, job = (
        f"{p.name} {surname(rng, split)}",
        rng.randint(4, 90),
        rng.choice(CITIES),
        rng.choice(JOBS),
    )
    hobbies = rng.sample(HOBBIES, rng.randint(1, 3))
    kids, married = rng.randint(0, 5), rng.random() < 0.5
    he = p.he.capitalize()
    return "person", [
        ("name", name, f"The [person's |]name is {name}."),
        ("age", age, f"{he} is {age} years old."),
        ("city", city, f"{he} lives in {city}."),
        ("job", job, f"{he} works as {article(job)}."),
        ("hobbies", hobbies, f"{he} likes {_list(hobbies)}."),
        ("children", kids, f"{he} has {kids} children."),
        ("married", married, f"{he} is {'' if married else 'not '}married."),
        ("email", f"{p.name.lower()}@mail.org", f"The email is {p.name.lower()}@mail.org."),
    ]


def a_book(rng: random.Random, split: str) -> tuple[str, list[Field]]:
    title = f"The {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"
    author = f"{person(rng, split).name} {surname(rng, split)}"
    year, pages, genre, price = (
        rng.randint(1900, 2026),
        rng.randint(60, 800),
        rng.choice(GENRES),
        rng.randint(5, 60) + rng.choice((0.5, 0.99, 0.25)),
    )
    out = rng.random() < 0.5
    return "book", [
        ("title", title, f'The [book\'s |]title is "{title}".'),
        ("author", author, f"[It was written by|The author is] {author}."),
        ("year", year, f"It [appeared|was published] in {year}."),
        ("pages", pages, f"It has {pages} pages."),
        ("genre", genre, f"The genre is {genre}."),
        ("price", price, f"It costs {price}."),
        ("available", out, f"It is {'available' if out else 'not available'}."),
    ]


def a_product(rng: random.Random, split: str) -> tuple[str, list[Field]]:
    name, colour = rng.choice(GOODS), rng.choice(COLOURS)
    price, stock, rating = rng.randint(1, 90) + 0.5, rng.randint(0, 300), rng.randint(1, 5)
    sizes = rng.sample(["S", "M", "L", "XL"], rng.randint(1, 4))
    number = f"{rng.choice('ABCDEFGHK')}{rng.randint(100, 999)}"
    return "product", [
        ("name", name, f'[The product is called|It is named] "{name}".'),
        ("color", colour, f"[The color is|It is] {colour}."),
        ("price", price, f"[The price is|It costs] {price}."),
        ("stock", stock, f"There are {stock} in stock."),
        ("rating", rating, f"[Customers rate it|Its rating is] {rating}."),
        ("sizes", sizes, f"It comes in the sizes {_list(sizes)}."),
        ("id", number, f"Its id is {number}."),
    ]


def an_event(rng: random.Random, split: str) -> tuple[str, list[Field]]:
    kind = rng.choice(
        [
            "concert",
            "meeting",
            "party",
            "lecture",
            "market",
            "race",
            "wedding",
            "workshop",
            "picnic",
        ]
    )
    date, said = _date(rng)
    start, city, guests = _time(rng), rng.choice(CITIES), rng.randint(2, 250)
    host, free = person(rng, split).name, rng.random() < 0.5
    day = rng.choice(WEEKDAYS)
    return "event", [
        ("event", kind, f"[The event is|It is] {article(kind)}."),
        ("date", date, f"[The date is|It takes place on] {said}."),
        ("time", start, f"It [starts|begins] at {start}."),
        ("city", city, f"[The city is|It is held in] {city}."),
        ("host", host, f"The host is {host}."),
        ("guests", guests, f"{guests} guests [are expected|will come]."),
        ("free", free, f"Entry is {'free' if free else 'not free'}."),
        ("weekday", day, f"It is a {day}."),
    ]


def a_pet(rng: random.Random, split: str) -> tuple[str, list[Field]]:
    name, kind, age = person(rng, split).name, rng.choice(PETS), rng.randint(1, 20)
    owner, colour, weight, shots = (
        person(rng, split).name,
        rng.choice(COLOURS),
        rng.randint(1, 40),
        rng.random() < 0.5,
    )
    return "pet", [
        ("name", name, f"The pet is called {name}."),
        ("kind", kind, f"It is a {kind}."),
        ("age", age, f"It is {age} years old."),
        ("owner", owner, f"It belongs to {owner}."),
        ("color", colour, f"Its color is {colour}."),
        ("weight_kg", weight, f"It weighs {weight} kg."),
        ("vaccinated", shots, f"It is {'' if shots else 'not '}vaccinated."),
    ]


def a_forecast(rng: random.Random, split: str) -> tuple[str, list[Field]]:
    city, sky, high, low, wind, rain = (
        rng.choice(CITIES),
        rng.choice(SKIES),
        rng.randint(10, 38),
        rng.randint(-12, 9),
        rng.randint(0, 90),
        rng.randint(0, 100),
    )
    date, said = _date(rng)
    return "weather report", [
        ("city", city, f"The city is {city}."),
        ("date", date, f"The date is {said}."),
        ("sky", sky, f"The sky is {sky}."),
        ("high", high, f"The high is {high} degrees."),
        ("low", low, f"The low is {low} degrees."),
        ("wind_kmh", wind, f"The wind blows at {wind} km/h."),
        ("rain_percent", rain, f"The chance of rain is {rain} percent."),
    ]


def a_recipe(rng: random.Random, split: str) -> tuple[str, list[Field]]:
    food, minutes, serves = rng.choice(FOODS), rng.choice(range(10, 125, 5)), rng.randint(1, 12)
    parts = rng.sample(
        [
            "flour",
            "butter",
            "sugar",
            "salt",
            "eggs",
            "milk",
            "water",
            "oil",
            "honey",
            "yeast",
            "rice",
            "lemon",
        ],
        rng.randint(2, 4),
    )
    vegan, cook = rng.random() < 0.5, person(rng, split).name
    return "recipe", [
        ("dish", food, f"The dish is {food}."),
        ("minutes", minutes, f"It takes {minutes} minutes."),
        ("serves", serves, f"It serves {serves} people."),
        ("ingredients", parts, f"[You need|The ingredients are] {_list(parts)}."),
        ("vegan", vegan, f"It is {'' if vegan else 'not '}vegan."),
        ("cook", cook, f"The cook is {cook}."),
    ]


def an_order(rng: random.Random, split: str) -> tuple[str, list[Field]]:
    who, number, state = (
        f"{person(rng, split).name} {surname(rng, split)}",
        rng.randint(1000, 9999),
        rng.choice(STATES),
    )
    items = [{"name": n, "count": rng.randint(1, 9)} for n in rng.sample(GOODS, rng.randint(1, 3))]
    told = _list([f"{i['count']} of \"{i['name']}\"" for i in items])
    date, said = _date(rng)
    return "order", [
        ("order", number, f"The order has the number {number}."),
        ("customer", who, f"The customer is {who}."),
        ("items", items, f"The items are {told}."),
        ("status", state, f"The status is {state}."),
        ("date", date, f"[It was made on|The date is] {said}."),
        (
            "total",
            sum(i["count"] for i in items) * 2,
            f"The total is {sum(i['count'] for i in items) * 2}.",
        ),
    ]


def a_place(rng: random.Random, split: str) -> tuple[str, list[Field]]:
    street, number = f"{rng.choice(NOUNS)} Street", rng.randint(1, 200)
    city, rooms, rent, garden = (
        rng.choice(CITIES),
        rng.randint(1, 9),
        rng.randint(3, 40) * 50,
        rng.random() < 0.5,
    )
    owner = f"{person(rng, split).name} {surname(rng, split)}"
    address = {"street": street, "number": number, "city": city}
    return "house", [
        ("address", address, f"[The address is|It stands at] {number} {street} in {city}."),
        ("rooms", rooms, f"It has {rooms} rooms."),
        ("rent", rent, f"The rent is {rent}."),
        ("garden", garden, f"It has {'a' if garden else 'no'} garden."),
        ("owner", owner, f"The owner is {owner}."),
    ]


def _list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


KINDS: list[Callable[[random.Random, str], tuple[str, list[Field]]]] = [
    a_person,
    a_person,
    a_book,
    a_product,
    an_event,
    a_pet,
    a_forecast,
    a_recipe,
    an_order,
    a_place,
]
REQUESTS = [
    "Write a JSON object for this {kind}",
    "Turn the description of a {kind} into JSON",
    "Give me a JSON record of a {kind}",
    "Make a JSON object that describes this {kind}",
    "Record this {kind} as JSON",
]


def record(rng: random.Random, split: str) -> tuple[str, dict, str, bool]:
    """Kind, the object, its description, and whether it is wanted on one line."""
    while True:
        kind, fields = rng.choice(KINDS)(rng, split)
        first, rest = fields[0], fields[1:]
        chosen = [first, *rng.sample(rest, rng.randint(2, min(5, len(rest))))]
        if in_split(split, "record", kind, *(f[0] for f in chosen), chosen[1][1], chosen[2][1]):
            break
    told = [expand(sentence, rng, {}) for _, _, sentence in chosen]
    return kind, {key: value for key, value, _ in chosen}, " ".join(told), rng.random() < 0.4


def dump(value: dict, one_line: bool) -> str:
    return json.dumps(value, indent=None if one_line else 2, ensure_ascii=False)


def generate(rng: random.Random, split: str) -> Document:
    kind, value, told, one_line = record(rng, split)
    request = expand(rng.choice(REQUESTS), rng, {"kind": kind})
    keys = f" with the keys {_list(list(value))}" if rng.random() < 0.5 else ""
    where = " on one line" if one_line else ""
    return Document(
        f"Request: {request}{keys}{where}.\n{told}\nJSON:\n",
        dump(value, one_line),
        {"value": value},
    )
