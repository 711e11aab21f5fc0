"""Short dialogues in the ChatML format, tools included.

    <|im_start|>system
    ...<|im_end|>
    <|im_start|>user
    ...<|im_end|>
    <|im_start|>assistant
    ...<|im_end|>

Tools are listed in the system message, one JSON object a line between <tools> and
</tools>; a call is a JSON object between <tool_call> and </tool_call>; the result comes
back in a user turn between <tool_response> and </tool_response>.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from . import edits, functions, maths, records, stories
from .document import Document, in_split
from .grammar import expand
from .story_words import FOODS, HOBBIES
from .words import CITIES, COLOURS, MONTHS, WEEKDAYS, person

START, END = "<|im_start|>", "<|im_end|>"
Turns = list[tuple[str, str]]

SYSTEMS = [
    "You are a helpful assistant.",
    "You are a friendly assistant.",
    "You are a kind teacher.",
    "Answer briefly.",
    "You answer in short sentences.",
    "You help people with small tasks.",
    "You are a patient helper.",
    "Be polite and brief.",
]
FACTS = [  # question, answer
    ("How many days [does a week have|are in a week]?", "A week has seven days."),
    ("How many months [does a year have|are in a year]?", "A year has twelve months."),
    ("What do bees make?", "Bees make honey."),
    ("What color is the sky on a clear day?", "The sky is blue on a clear day."),
    ("What do cows give us?", "Cows give us milk."),
    ("Which animal says meow?", "The cat says meow."),
    ("What is frozen water called?", "Frozen water is called ice."),
    ("How many legs does a spider have?", "A spider has eight legs."),
    ("How many legs does an insect have?", "An insect has six legs."),
    ("What comes after Tuesday?", "Wednesday comes after Tuesday."),
    ("What season comes after winter?", "Spring comes after winter."),
    ("Where does the sun rise?", "The sun rises in the east."),
    ("What do we call a baby dog?", "A baby dog is called a puppy."),
    ("What do we call a baby cat?", "A baby cat is called a kitten."),
    ("What do plants need to grow?", "Plants need water, light and air."),
    ("What is the opposite of hot?", "The opposite of hot is cold."),
    ("What is the opposite of big?", "The opposite of big is small."),
    ("What is the opposite of early?", "The opposite of early is late."),
    ("How many sides does a triangle have?", "A triangle has three sides."),
    ("How many sides does a square have?", "A square has four sides."),
    ("What do you use to cut paper?", "You use scissors to cut paper."),
    ("What do fish breathe with?", "Fish breathe with gills."),
    ("What is a group of wolves called?", "A group of wolves is called a pack."),
    ("Which planet do we live on?", "We live on the planet Earth."),
    ("What do you call a house made of ice?", "A house made of ice is called an igloo."),
    ("How many minutes are in an hour?", "An hour has sixty minutes."),
]
TOOLS = {
    "get_weather": ("Get the weather of a city.", {"city": "string"}),
    "set_timer": ("Set a timer.", {"minutes": "integer"}),
    "add_reminder": ("Add a reminder.", {"text": "string", "day": "string"}),
    "calculate": ("Compute an expression.", {"expression": "string"}),
    "play_song": ("Play a song.", {"title": "string"}),
    "send_message": ("Send a message to a contact.", {"to": "string", "text": "string"}),
    "get_time": ("Get the time in a city.", {"city": "string"}),
    "turn_on_light": ("Turn on the light in a room.", {"room": "string"}),
    "find_recipe": ("Find a recipe.", {"dish": "string"}),
    "translate": ("Translate a word.", {"word": "string", "language": "string"}),
}
ROOMS = ["kitchen", "bedroom", "hall", "bathroom", "office", "garage", "garden"]
TASKS = [
    "water the plants",
    "call the doctor",
    "buy milk",
    "feed the cat",
    "pay the rent",
    "return the books",
    "bake a cake",
    "clean the car",
    "pick up the mail",
    "write a letter",
    "book a table",
    "fix the bike",
]
SONGS = [
    "Blue River",
    "Morning Light",
    "Little Star",
    "The Long Road",
    "Winter Song",
    "Paper Moon",
    "Old Harbor",
]
MESSAGES = [
    "I will be late",
    "dinner is ready",
    "see you tomorrow",
    "thank you for the gift",
    "the train is on time",
    "call me back",
    "the keys are on the table",
    "happy birthday",
]
WORDS = {
    "house": ("casa", "Haus"),
    "water": ("agua", "Wasser"),
    "bread": ("pan", "Brot"),
    "book": ("libro", "Buch"),
    "dog": ("perro", "Hund"),
    "cat": ("gato", "Katze"),
    "sun": ("sol", "Sonne"),
    "milk": ("leche", "Milch"),
    "friend": ("amigo", "Freund"),
    "tree": ("arbol", "Baum"),
    "night": ("noche", "Nacht"),
    "fish": ("pez", "Fisch"),
}


def say(rng: random.Random, template: str, **slots: object) -> str:
    return expand(template, rng, {k: str(v) for k, v in slots.items()})


def small_talk(rng: random.Random, split: str) -> Turns:
    me = person(rng, split).name
    hobby, city = rng.choice(HOBBIES), rng.choice(CITIES)
    turns = [
        (
            "user",
            say(
                rng,
                "[Hello|Hi|Good morning], [my name is|I am] {m}[ and I live in {c}|].",
                m=me,
                c=city,
            ),
        ),
        (
            "assistant",
            say(
                rng,
                "[Hello|Hi|Nice to meet you], {m}! [How can I help you?|What can I do for you?]",
                m=me,
            ),
        ),
    ]
    turns += rng.choice(
        [
            [
                (
                    "user",
                    say(rng, "I like {h}. [What do you think?|Is that a good hobby?]", h=hobby),
                ),
                (
                    "assistant",
                    say(
                        rng,
                        "[That sounds lovely|What a nice hobby|That is a good hobby]. I hope you "
                        "enjoy {h}.",
                        h=hobby,
                    ),
                ),
            ],
            [
                ("user", say(rng, "I am [a bit |]tired today.")),
                (
                    "assistant",
                    say(
                        rng,
                        "I am sorry to hear that, {m}. [A short rest may help.|Maybe you can go "
                        "to bed early.]",
                        m=me,
                    ),
                ),
            ],
            [
                ("user", say(rng, "What should I [eat|cook] today?")),
                ("assistant", say(rng, "[How about|You could try] {f}?", f=rng.choice(FOODS))),
            ],
        ]
    )
    return turns + [
        ("user", say(rng, "[What is my name?|Do you remember my name?|Who am I?]")),
        ("assistant", say(rng, "Your name is {m}.", m=me)),
    ]


def fact(rng: random.Random, split: str) -> Turns:
    turns = []
    for question, answer in rng.sample(FACTS, rng.randint(1, 3)):
        turns += [("user", say(rng, question)), ("assistant", answer)]
    return turns


def sum_chat(rng: random.Random, split: str) -> Turns:
    a, b = rng.randint(2, 99), rng.randint(2, 99)
    op = rng.choice("+-*")
    if op == "-" and b > a:
        a, b = b, a
    if op == "*":
        a, b = rng.randint(2, 12), rng.randint(2, 12)
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    word = {"+": "plus", "-": "minus", "*": "times"}[op]
    return [
        (
            "user",
            say(
                rng,
                "[What is {a} {w} {b}?|How much is {a} {o} {b}?|Please compute {a} {o} {b}.]",
                a=a,
                b=b,
                w=word,
                o=op,
            ),
        ),
        ("assistant", f"{a} {op} {b} = {value}"),
    ]


def problem_chat(rng: random.Random, split: str) -> Turns:
    doc = maths.generate(rng, split)
    return [("user", doc.prompt.removeprefix("Question: ").strip()), ("assistant", doc.completion)]


def function_chat(rng: random.Random, split: str) -> Turns:
    doc = functions.generate(rng, split)
    head = doc.prompt.split("\n")
    task = head[1].strip().strip('"')
    signature = head[0]
    return [
        (
            "user",
            say(
                rng,
                "[Write|Please write] a Python function [{s}|with the signature {s}]. {t}",
                s=signature[4:-1],
                t=task,
            ),
        ),
        ("assistant", f"```python\n{signature}\n{doc.completion}\n```"),
    ]


def record_chat(rng: random.Random, split: str) -> Turns:
    kind, value, told, one_line = records.record(rng, split)
    return [
        (
            "user",
            say(
                rng,
                "[Write this as JSON|Give me JSON for this {k}|Turn this into a JSON object]{l}: ",
                k=kind,
                l=" on one line" if one_line else "",
            )
            + told,
        ),
        ("assistant", records.dump(value, one_line)),
    ]


def edit_chat(rng: random.Random, split: str) -> Turns:
    how, text, result = edits.edit(rng, split)
    return [("user", f"{how}\n\n{text}"), ("assistant", result)]


def story_chat(rng: random.Random, split: str) -> Turns:
    doc = stories.generate(rng, split)
    name = doc.facts["names"][0]
    return [
        (
            "user",
            say(
                rng,
                "[Tell me a story about {n}.|Write a [short |]story about {n}.|I would like a "
                "story about {n}, please.]",
                n=name,
            ),
        ),
        ("assistant", doc.completion),
    ]


def shout_chat(rng: random.Random, split: str) -> Turns:
    question, answer = rng.choice(FACTS)
    return [
        ("system", "Answer in capital letters."),
        ("user", say(rng, question)),
        ("assistant", answer.upper()),
    ]


def persona(rng: random.Random, split: str) -> Turns:
    p = person(rng, split)
    job = rng.choice(records.JOBS)
    return [
        ("system", f"Your name is {p.name} and you are a {job}."),
        ("user", say(rng, "[Who are you?|What is your name?|Please introduce yourself.]")),
        ("assistant", f"My name is {p.name}. I am a {job}."),
        ("user", say(rng, "[What is your job?|What do you do?]")),
        ("assistant", f"I am a {job}."),
    ]


def tool_list(names: list[str]) -> str:
    lines = [
        json.dumps({"name": n, "description": TOOLS[n][0], "parameters": TOOLS[n][1]})
        for n in names
    ]
    return "You can call these tools:\n<tools>\n" + "\n".join(lines) + "\n</tools>"


def tool_case(rng: random.Random, split: str, tool: str) -> tuple[str, dict, dict, str]:
    """A request, the call's arguments, the tool's result and the answer."""
    city, n = rng.choice(CITIES), rng.randint(2, 60)
    if tool == "get_weather":
        sky = rng.choice(records.SKIES)
        return (
            say(
                rng,
                "[What is the weather like in {c}?|How is the weather in {c}?|Do I need a coat in "
                "{c}?]",
                c=city,
            ),
            {"city": city},
            {"sky": sky, "degrees": n},
            f"In {city} it is {sky} with {n} degrees.",
        )
    if tool == "set_timer":
        return (
            say(rng, "[Set a timer for {n} minutes.|Please wake me in {n} minutes.]", n=n),
            {"minutes": n},
            {"ok": True},
            f"The timer is set for {n} minutes.",
        )
    if tool == "add_reminder":
        task, day = rng.choice(TASKS), rng.choice(WEEKDAYS)
        return (
            say(rng, "Remind me to {t} on {d}.", t=task, d=day),
            {"text": task, "day": day},
            {"ok": True},
            f"I will remind you to {task} on {day}.",
        )
    if tool == "calculate":
        a, b = rng.randint(100, 999), rng.randint(100, 999)
        return (
            say(rng, "[What is|How much is] {a} + {b}?", a=a, b=b),
            {"expression": f"{a} + {b}"},
            {"value": a + b},
            f"{a} + {b} is {a + b}.",
        )
    if tool == "play_song":
        title = rng.choice(SONGS)
        return (
            say(rng, "[Play|Please play|I want to hear] {t}.", t=title),
            {"title": title},
            {"ok": True},
            f"Now playing {title}.",
        )
    if tool == "send_message":
        to, text = person(rng, split).name, rng.choice(MESSAGES)
        return (
            say(rng, "[Tell|Write to] {p}: {t}.", p=to, t=text),
            {"to": to, "text": text},
            {"ok": True},
            f"I sent your message to {to}.",
        )
    if tool == "get_time":
        time = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
        return (
            say(rng, "What time is it in {c}?", c=city),
            {"city": city},
            {"time": time},
            f"It is {time} in {city}.",
        )
    if tool == "turn_on_light":
        room = rng.choice(ROOMS)
        return (
            say(rng, "[Turn on the light in the {r}.|It is dark in the {r}.]", r=room),
            {"room": room},
            {"ok": True},
            f"The light in the {room} is on.",
        )
    if tool == "find_recipe":
        dish = rng.choice(FOODS)
        return (
            say(rng, "[How do I make {d}?|Find a recipe for {d}.]", d=dish),
            {"dish": dish},
            {"minutes": n, "found": True},
            f"I found a recipe for {dish}. It takes {n} minutes.",
        )
    word = rng.choice(sorted(WORDS))
    which = rng.randrange(2)
    language = ("Spanish", "German")[which]
    return (
        say(rng, "[What is|How do you say] {w} in {l}?", w=word, l=language),
        {"word": word, "language": language},
        {"word": WORDS[word][which]},
        f"In {language}, {word} is {WORDS[word][which]}.",
    )


def tool_chat(rng: random.Random, split: str) -> Turns:
    names = rng.sample(sorted(TOOLS), rng.randint(1, 3))
    turns = [("system", tool_list(names))]
    for tool in rng.sample(names, rng.randint(1, min(2, len(names)))):
        ask, arguments, result, answer = tool_case(rng, split, tool)
        call = json.dumps({"name": tool, "arguments": arguments})
        turns += [
            ("user", ask),
            ("assistant", f"<tool_call>\n{call}\n</tool_call>"),
            ("user", f"<tool_response>\n{json.dumps(result)}\n</tool_response>"),
            ("assistant", answer),
        ]
    return turns


KINDS: list[Callable[[random.Random, str], Turns]] = [
    small_talk,
    small_talk,
    fact,
    sum_chat,
    problem_chat,
    problem_chat,
    function_chat,
    record_chat,
    edit_chat,
    story_chat,
    shout_chat,
    persona,
    tool_chat,
    tool_chat,
    tool_chat,
]


# Facts are too few to be divided, so that these are the same in both splits.
SHARED = ("fact", "shout_chat")


def render(turns: Turns) -> str:
    return "".join(f"{START}{role}\n{text}{END}\n" for role, text in turns)


def generate(rng: random.Random, split: str) -> Document:
    while True:
        kind = rng.choice(KINDS)
        turns = kind(rng, split)
        if kind.__name__ in SHARED or in_split(
            split, "chat", kind.__name__, turns[0][1], turns[1][1]
        ):
            break
    if turns[0][0] != "system" and rng.random() < 0.6:
        turns = [("system", rng.choice(SYSTEMS)), *turns]
    first = next(i for i, (role, _) in enumerate(turns) if role == "assistant")
    prompt = render(turns[:first]) + f"{START}assistant\n"
    return Document(
        prompt, render(turns)[len(prompt) :].removesuffix("\n"), {"kind": kind.__name__}
    )
