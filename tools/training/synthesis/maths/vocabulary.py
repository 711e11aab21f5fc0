"""The things, holders, goods and jobs of word problems."""

COUNTABLE = """apples oranges pears plums peaches lemons bananas cherries grapes melons carrots
potatoes onions tomatoes cookies muffins cupcakes sandwiches pancakes candies chocolates lollipops
marbles stickers stamps coins cards beads buttons shells stones feathers leaves flowers roses
tulips balloons ribbons pencils pens crayons markers erasers notebooks books comics magazines toys
dolls blocks puzzles kites balls cars trucks trains robots badges bottles cups plates spoons bowls
boxes baskets bags eggs chairs tables lamps candles photos postcards letters tickets shirts socks
hats scarves gloves bracelets keys bricks nails screws seeds plants trees fish chickens ducks
sheep goats cows horses rabbits pigeons""".split()
THINGS = COUNTABLE[: COUNTABLE.index("trees")]  # what fits into a box
HOLDERS = "boxes bags baskets trays shelves crates packs jars rows drawers".split()
HOLDER = {
    "boxes": "box",
    "bags": "bag",
    "baskets": "basket",
    "trays": "tray",
    "shelves": "shelf",
    "crates": "crate",
    "packs": "pack",
    "jars": "jar",
    "rows": "row",
    "drawers": "drawer",
}
GOODS = {  # singular: plural
    "apple": "apples",
    "book": "books",
    "pen": "pens",
    "ticket": "tickets",
    "shirt": "shirts",
    "hat": "hats",
    "cake": "cakes",
    "sandwich": "sandwiches",
    "toy": "toys",
    "ball": "balls",
    "notebook": "notebooks",
    "mug": "mugs",
    "plant": "plants",
    "lamp": "lamps",
    "game": "games",
    "poster": "posters",
    "scarf": "scarves",
    "candle": "candles",
    "pizza": "pizzas",
    "puzzle": "puzzles",
    "basket": "baskets",
    "brush": "brushes",
    "kite": "kites",
    "pie": "pies",
    "bracelet": "bracelets",
    "chair": "chairs",
    "cushion": "cushions",
}
JOBS = [
    "washing cars",
    "walking dogs",
    "mowing lawns",
    "raking leaves",
    "delivering papers",
    "babysitting",
    "watering gardens",
    "selling lemonade",
    "painting fences",
    "cleaning windows",
]
DAILY = {
    "reads": "pages",
    "writes": "lines",
    "bakes": "cookies",
    "picks": "apples",
    "folds": "paper birds",
    "paints": "cards",
    "plants": "seeds",
    "collects": "shells",
    "sells": "tickets",
    "makes": "candles",
    "solves": "puzzles",
    "runs": "laps",
    "swims": "lengths",
    "catches": "fish",
    "packs": "boxes",
    "cleans": "windows",
}
DID = {
    "reads": "read",
    "writes": "write",
    "bakes": "bake",
    "picks": "pick",
    "folds": "fold",
    "paints": "paint",
    "plants": "plant",
    "collects": "collect",
    "sells": "sell",
    "makes": "make",
    "solves": "solve",
    "runs": "run",
    "swims": "swim",
    "catches": "catch",
    "packs": "pack",
    "cleans": "clean",
}
PARTS = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth"}
TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}
