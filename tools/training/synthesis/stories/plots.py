"""The kinds of story. Each draws what it needs besides the plot's parts and tells the middle.

A function's name is part of the plot's key, which decides the split.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import story_words as w
from .plot import Plot

FEELS_BAD = "[sad|upset|worried|disappointed|a little angry|unhappy|close to tears]"
FEELS_GOOD = "[happy|glad|proud|delighted|full of joy|very pleased|so happy that {he} jumped]"


def lost(p: Plot) -> None:
    spots = p.rng.sample(w.LOST_SPOTS, 3)
    p.s.update(a1=spots[0], a2=spots[1], a3=spots[2])
    p.tell(
        "{h} had {a colour} {thing} [with its {part}, a gift from {f}|that {he} took "
        "everywhere|that {he} loved more than anything].",
        "{time}, the {thing} was gone!",
        f"{{h}} was {FEELS_BAD}.",
    )
    p.tell(
        '"[Have you seen my {thing}|Where is my {thing}|Who took my {thing}]?" {he} asked {f}.',
        '"No," said {f}, "but [I will help you look|let us look together|we will find it]."',
        "[First they looked|They began to search] {a1}. [Nothing was there but dust.|They found "
        "only an old sock.|It was not there.]",
        "[Then they searched|Next they looked] {a2}, but [there was only a sleepy cat|they found "
        "nothing but crumbs|the {thing} was not there either].",
    )
    p.tell(
        "[Just then|At that moment], the {helper} came by.",
        '"[I saw something {colour}|Something {colour} caught my eye|There is something {colour}] '
        '{a3}," the {helper} said.',
        "{h} and {f} ran [there|to look|as fast as they could]. [And there it was|There lay the "
        "{thing}]!",
        f"{{h}} was {FEELS_GOOD}.",
        '[{cap he} hugged {f} tightly.|"Thank you," {he} said to both of them.|{cap he} promised '
        "to take better care of it.]",
    )


def making(p: Plot) -> None:
    p.draw(w.MAKES, "goal", "m1", "m2", "m3")
    p.s.update(zip(("g1", "g2"), p.rng.sample(w.HELPERS, 2)))
    p.tell(
        "{time}, {h} had an idea. {cap he} wanted to make {goal}.",
        '"[We need|For that we need] {m1}, {m2} and {m3}," {he} told {f}.',
        '"[I have none of them|But we have nothing|Then let us go and look]," said {f}.',
    )
    p.tell(
        '[First they went to|They asked] the {g1}. "[You may have|I can give you] {m1}," said the '
        '{g1}, "if you [help me carry these bags|sweep my yard|tell me a story|sing me a song]."',
        "They [did it gladly|did so at once|worked for an hour] and got {m1}.",
        'The {g2} had {m2}. "[Take it|Here you are]," said the {g2}. "[I do not need it|I was a '
        'child once, too|It was only in my way]."',
    )
    p.tell(
        "Now they still needed {m3}.",
        "They looked for it at {place}. [And near|And beside] {spot}, {h} found [just what they "
        "needed|exactly that].",
        "[All afternoon|For two days|Until the sun went down] they worked. {f} [held things in "
        "place|read the plan|did the careful parts], and {h} [did the rest|hummed a tune|never "
        "got tired].",
        f"At last it was done. {{h}} was {FEELS_GOOD}.",
        '"It is the best thing [in the whole world|that we ever made|I have ever seen]," said {f}.',
    )


def fear(p: Plot) -> None:
    p.draw(w.FEARS, "fear", "aid", "trick", "insight")
    p.tell(
        "[But {h} had a secret|There was only one thing wrong]: {he} was afraid of {fear}.",
        "[Nobody knew it but {f}.|{cap he} never talked about it.|Just thinking of it made {his} "
        "knees shake.]",
        '{time}, {f} came running. "[Come with me to|Let us go to] {place}!" {fhe} said.',
        "But on the way there was no getting around {fear}.",
    )
    p.tell(
        '"I cannot do it," {he} whispered. {f} [took {his} hand|thought for a while|did not '
        "laugh].",
        '"[My friend the {helper} told me a trick|The {helper} knows what to do]," {f} said. '
        '"[All you need is|Take] {aid}."',
        "So {h} took {aid} and {trick}. [{cap his} heart beat fast.|It was hard at "
        "first.|{cap he} counted to ten.]",
    )
    p.tell(
        "Then {h} noticed something: {insight}!",
        '"[I did it|I am not afraid any more|It is not so bad]!" {h} [cried|shouted|laughed].',
        "[At {place} they played until the sun went down.|{cap place} had never looked so "
        "beautiful.|They ate {food} under the sky to celebrate.]",
    )


def quarrel(p: Plot) -> None:
    p.tell(
        "{time}, {h} and {f} found {a colour} {thing} [near|beside|not far from] {spot} at "
        "{place}.",
        '"It is mine! I saw it first," said {h}. "No, it is mine! I picked it up," said {f}.',
        "They both pulled. [Crack|Rip|Snap]! The {thing} [broke|came apart|was in two pieces].",
    )
    p.tell(
        f"{{h}} was {FEELS_BAD}, and so was {{f}}. [They went home without a word.|Neither said a "
        f"word.|They turned their backs to each other.]",
        "[All evening|That night], {h} thought about it. [The house was much too quiet.|Playing "
        "alone was no fun.|{cap he} did not even want {food}.]",
        '[In the morning|The next day], {he} went to the {helper} and asked, "[Can it be '
        'mended|What should I do]?"',
        '"[Things can be glued|A {thing} can be mended], and so can friends," said the {helper}.',
    )
    p.tell(
        'So {h} knocked at {f}\'s door. "I am sorry," {he} said. "[I should have shared|You '
        'matter more than {a thing}|Please be my friend again]."',
        '"I am sorry, too," said {f}. Together they [glued|mended|fixed] the {thing}[ with tape '
        "and patience| until it looked like new|].",
        "[After that, each had it for one day at a time.|Then they played with it by turns.|Now "
        "it belonged to both of them.]",
    )


def rescue(p: Plot) -> None:
    p.draw(w.RESCUES, "animal", "where", "tool", "sound", "why")
    p.tell(
        "{time}, {h} and {f} walked to {place}. {cap sky}.",
        "[Suddenly|All at once|Near {spot}], they heard a small noise. [It was {animal} "
        "{where}!|There was {animal} {where}!]",
        "It {sound}, because {why}.",
    )
    p.tell(
        '"[Poor little thing|Oh no|Look]!" said {f}. "[We have to help|What can we do|We must do '
        'something]!"',
        "{h} tried to reach it with {his} hands, but [it was no use|{he} was too small|that did "
        "not work].",
        '"[We need|What we need is] {tool}," {he} said. [They ran to the {helper}.|So they '
        "hurried to the {helper}.]",
        "The {helper} had {tool} and [came along at once|gave it to them gladly|wished them good "
        "luck].",
    )
    p.tell(
        "[Slowly and carefully|Very gently|Bit by bit], they set the animal free.",
        "[It looked at {h} with bright eyes.|It shook itself and rested a moment.|It was thirsty, "
        "so they gave it water.]",
        '"You are safe now," said {h}, and {he} was [happy|glad|proud].',
        "[The next morning it sat at {his} door to say thank you.|Since then, it has followed "
        "them everywhere.|Then it went back to its family.]",
    )


def contest(p: Plot) -> None:
    p.draw(w.CONTESTS, "contest", "sport", "aim", "prize")
    p.tell(
        '{time}, there was a sign at {place}: "[Come to|Join] {contest}! The winner gets {prize}."',
        '"I want to win that," said {h}. [Every day {he} practiced {sport}.|For two weeks {he} '
        "thought of nothing but {sport}.|{cap he} got up early to practice.]",
        '{t}, who was [very good at {sport}|the best in town], only laughed. "You will never '
        'win," said {t}.',
    )
    p.tell(
        "At last the day came. [{cap his} hands were wet.|{h}'s heart beat like a drum.|Everybody "
        "came to watch.]",
        "[At first {t} was ahead.|{t} began very well.|In the beginning, it looked good for {t}.] "
        "But close to {aim}, {t} [stumbled|made a mistake|got a cramp] and [cried|sat down|could "
        "not go on].",
        "{h} could have won right then. But {he} [stopped|turned around|went back] and [helped "
        "{t} up|sat down beside {t}|gave {t} a hand].",
    )
    p.tell(
        "[In the end, somebody else won {prize}.|They came in last, side by side.|Both of them "
        "got {prize} to share.]",
        '"[Why did you help me|Why did you do that]?" asked {t}. "[Because you needed '
        'help|Because that is what friends do|Because winning alone is no fun]," said {h}.',
        "{f} clapped [loudest of all|until {fhis} hands were red]. The {helper} gave them [both "
        "|]{food}.",
    )


def spoiled(p: Plot) -> None:
    p.draw(w.WEATHER[2:5] + w.WEATHER[7:10], "bad", "badsky")
    p.s["spoil"] = p.one(
        [
            "a picnic",
            "a parade",
            "a boat trip",
            "a kite day",
            "a garden party",
            "a treasure hunt",
            "a ball game",
            "a camping night",
            "a long hike",
        ]
    )
    p.tell(
        "{h} and {f} had planned {spoil} at {place}. [They had packed {food} and {food2}.|They "
        "had waited for it all week.|Everything was ready.]",
        'But {time_}, {badsky}. "[Oh no|What now|Our day is ruined]," said {h}.',
        f"{{cap he}} was {FEELS_BAD}.",
    )
    p.tell(
        '{f} looked around the room. "[Who says that we need good weather|I have an idea|Wait a '
        'moment]," {fhe} said.',
        "[They put {a colour} blanket over the table.|They pushed the chairs together.|They hung "
        "up lamps and {colour} ribbons.]",
        '"This is {place} now," said {f}. "[And here is {spot}|The chair is {spot}|Look, that is '
        '{spot}]."',
        "The {helper} heard them and came in from outside, and brought {a thing}.",
    )
    p.tell(
        "[They laughed so much that they forgot the weather.|It was more fun than outside.|They "
        "played until supper.]",
        '"That was the best [{bad} day|indoor day|party] of my life," said {h}.',
    )


def skill(p: Plot) -> None:
    p.draw(w.SKILLS, "skill", "fail1", "fail2", "tip")
    p.tell(
        '{time}, {h} saw how well {f} could {skill} at {place}. ["I want to do that, too," {he} '
        "said.|It looked so easy.|{cap he} wanted to learn it at once.]",
        'On the first try, {he} {fail1}. [{f} tried not to laugh.|That hurt a little.|"Try '
        'again," said {f}.]',
        "On the second try, {fail2}.",
        f'{{h}} was {FEELS_BAD}. "I will never learn to {{skill}}," {{he}} said.',
    )
    p.tell(
        'The {helper} had watched from {spot}. "[May I tell you something?|It took me a year, '
        'too!|You are closer than you think!]" said the {helper}.',
        '"[The secret is this|Remember only one thing]: {tip}."',
        "{h} took a deep breath and tried [once more|a third time|again]. {cap he} did just what "
        "the {helper} had said.",
    )
    p.tell(
        'And [it worked|this time it worked]! "[Look at me|I can do it|Did you see that]!" {h} '
        "called.",
        "[{f} cheered and clapped.|The {helper} winked.|Even the birds seemed to cheer.]",
        "[By the end of the week|Soon|After a month], {he} could {skill} [better than anyone|as "
        "well as {f}|almost without thinking], and {he} taught {t}, too.",
    )


def gift(p: Plot) -> None:
    p.s["n"] = p.one(
        ["one coin", "two coins", "three coins", "no money at all", "only a button and a coin"]
    )
    p.tell(
        "{time}, {h} remembered that {f}'s birthday was [tomorrow|near|only two days away].",
        "{cap he} wanted to give {fhim} {a colour} {thing}, but {he} had {n}.",
        "In the shop window the {thing} cost [much more|ten coins|a fortune].",
        f"{{h}} was {FEELS_BAD}.",
    )
    p.tell(
        'On the way home {he} met the {helper}. "[Why such a long face|What is wrong]?" asked the '
        "{helper}.",
        '{h} told everything. "[The best gifts are made, not bought|Use your hands and your '
        'heart|You can make something yourself]," said the {helper}.',
        "So {he} went to {place} and gathered [what {he} found near {spot}|leaves and "
        "petals|pretty stones and bits of wood].",
        "[All night|Until late] {he} cut, glued and painted. In the morning there was a {thing} "
        "that {he} had made {him}self.",
    )
    p.tell(
        '"Happy birthday!" {h} said. {f} opened the box slowly. [{cap fhis} eyes grew wide.|Then '
        "{fhe} was very quiet.]",
        '"[Did you make it yourself|You made this for me]?" {fhe} asked. "[It is wonderful|I will '
        'keep it forever|I have never had anything so beautiful]!"',
        "They had {food} and {food2}, and {h} was [happier than with any coin|glad to have no "
        "money that day|the happiest guest of all].",
    )


def magic(p: Plot) -> None:
    p.draw(w.MAGIC, "charm", "power", "trouble")
    p.tell(
        "{time}, {h} found {charm} [near|beside|behind] {spot} at {place}.",
        'It was magic, for it {power}! ["How wonderful," {he} cried.|{cap he} could hardly '
        "believe it.|{cap he} ran to show it to {f}.]",
        '"Be careful," said {f}. "Magic has [a price|a will of its own|two sides]." But {h} did '
        "not listen.",
    )
    p.tell(
        "At first it was fun. [{h} used it at breakfast, at lunch and at supper.|Everybody wanted "
        "to see it.|{cap he} used it again and again.]",
        'But soon {trouble}. "Stop!" {h} cried, but it did not stop.',
        '[{cap he} ran to the {helper}.|In the end, {he} asked the {helper} for help.] "[What you '
        'found was never yours|It wants to go home|It only rests where it was found]," said the '
        '{helper}. "[Put it back|Bring it back to {spot}]."',
    )
    p.tell(
        "So {h} and {f} carried it back [together|through the night|as quickly as they could]. "
        "[The moment it touched the ground|When it lay in its old spot], everything was as before.",
        '"[I will miss it a little|It was fun for a day|Some things are best left alone]," said '
        '{h}. "[But I like things the way they are|But I have you|Let us go home]."',
    )


def newcomer(p: Plot) -> None:
    p.tell(
        "{time}, a new neighbor moved in beside {h}. It was {a fkind} named {f}.",
        '{f} [never said a word|always looked at the ground|sat alone near {spot}]. "[Maybe {fhe} '
        'does not like us|How odd|{cap fhe} must be very shy]," said {t}.',
        "But {h} saw that {f} had {a colour} {thing} [in {fhis} bag|under {fhis} arm|on {fhis} "
        "lap].",
    )
    p.tell(
        'The next day {h} went over to {fhim}. "[I like your {thing}|That is a fine {thing}]," '
        '{he} said. "[Do you like {hobby}, too|Do you want to go to {place} with me]?"',
        'For a moment there was silence. Then {f} [smiled|nodded|looked up]. "[I know nobody '
        'here|Where I come from, everything is different|I thought that nobody would ask me]," '
        "{fhe} said [softly|in a low voice].",
        '"Now you know me," said {h}.',
    )
    p.tell(
        "They went to {place} and talked about {hobby} [until dark|for hours|all the way].",
        "{f} knew [a game that nobody had played before|how to make {food}|stories from far "
        "away], and soon {t} wanted to join in, too.",
        'The {helper} saw them and said, "[A friend is found by asking|That was well done, '
        '{h}|One hello can change a whole year]."',
    )


def forbidden(p: Plot) -> None:
    p.draw(w.FORBIDDEN, "deed", "what", "mess")
    p.s["elder"] = p.one(
        ["mother", "father", "grandmother", "grandfather", "aunt", "uncle", "teacher"]
    )
    p.tell(
        '{time}, {h}\'s {elder} said, "[Please do not|Whatever you do, do not] {deed}." "I '
        'promise," said {h}.',
        "But [as soon as {he} was alone|after a while|when the house was quiet], {he} could think "
        "of nothing else.",
        '"Just once," {he} whispered to {f}. "[I do not think that we should|Better not|You '
        'promised]," said {f}. But {h} did it all the same.',
    )
    p.tell(
        "[Oh dear|Then it happened|What a shock]! {cap what}. [In no time, |Soon |A minute later "
        "]{mess}.",
        f'{{h}} was {FEELS_BAD}. "[We could say that it was the cat|Nobody saw us|Let us hide]," '
        f"{{he}} said first.",
        'But {his} stomach hurt when {he} thought of it. "No," {he} said. "I will tell the truth."',
    )
    p.tell(
        '{cap he} went to {his} {elder} and said, "I broke my promise. I am [so |very |]sorry."',
        'The {elder} was [silent|stern] for a moment. "I am not glad about it," came the answer. '
        '"But [it was brave to tell me|I am proud that you told me|the truth counts more]."',
        "Together they [cleaned up|put everything right|made it good again], and {f} helped. "
        "[Afterward there was {food}.|It took the whole day.|That evening {h} slept well.]",
    )


def journey(p: Plot) -> None:
    p.draw(w.SIGHTS, "sight", "path", "view")
    (o1, a1, b1, c1), (o2, a2, b2, c2) = p.rng.sample(w.OBSTACLES, 2)
    p.s.update(o1=o1, a1=a1, b1=b1, c1=c1, o2=o2, a2=a2, b2=b2, c2=c2)
    p.tell(
        "{h} had always wanted to see {sight} {path}.",
        '{time}, {he} packed {food} and {a thing}. "[I am coming with you|You will not go '
        'alone|Take me with you]," said {f}. So they set out together.',
        "[They walked past {place}.|The road led them past {place}.|By noon they had left {place} "
        "behind them.]",
    )
    p.tell(
        'Then they came to {o1}. [Worse still, {a1}.|There, {a1}.] "[What now|How do we get on]?" '
        "asked {f}.",
        "{h} [thought hard|looked around|scratched {his} head]. Then they {b1} and {c1}.",
        "A little later there was {o2}, and {a2}. This time it was {f} who had an idea. They {b2} "
        "and {c2}.",
        '["You are almost there," said the {helper} whom they met.|The {helper} gave them water '
        "and showed them the way.|]",
    )
    p.tell(
        'And then they saw it: {view}. [Neither of them said a word.|"Oh," said {f}, and nothing '
        "more.|{h} held {his} breath.]",
        '"[It was worth every step|I will never forget this|I am glad that you are here]," said '
        "{h}.",
        "They shared the {food} and [stayed until the stars came out|looked and looked|drew a "
        "picture of it for {t}].",
    )


def growing(p: Plot) -> None:
    p.draw(w.SEEDS, "plant", "pest", "guard", "fruit")
    p.tell(
        '{time}, the {helper} gave {h} {a plant} seed. "[Put it into the ground and wait|Be good '
        'to it|It needs you]," said the {helper}.',
        "{h} planted it near {spot} and watered it. Then {he} sat down to wait. [Nothing "
        'happened.|An hour went by.|"It is broken," {he} said after a while.]',
        '"[Seeds are slow|It is growing where you cannot see it|You must wait]," said {f}.',
    )
    p.tell(
        "[A week later|After ten days|One morning], a small green tip looked out of the earth. "
        "{h} danced around it.",
        'But in the night, {pest} came and nibbled at the leaves! "[Go away|Leave it alone]!" '
        "{he} cried.",
        "{f} had an idea. They put up {guard}, and {pest} stayed away[ from then on|].",
    )
    p.tell(
        "[The summer went by|Weeks passed|The rain fell and the sun shone]. At last the {plant} "
        "was there, {fruit}!",
        "[All the neighbors came to look.|{t} took a picture of it.|The {helper} came and nodded.]",
        '{h} gave a part to everyone and kept one [small |]seed. "For next year," {he} said.',
    )


def lost_way(p: Plot) -> None:
    p.s.update(zip(("k1", "k2", "k3"), p.rng.sample(w.KINDS[:30], 3)))
    p.tell(
        "{time}, {h} followed {a colour} butterfly past {place}.",
        "When {he} looked around, nothing was as {he} knew it. {h} was lost. {cap sky}, and it "
        "was getting late.",
        f'{{cap he}} was {FEELS_BAD}, but {{he}} remembered what {{f}} had told {{him}}: "If you '
        f'are lost, [stay calm and ask|think first|look for something you know]."',
    )
    p.tell(
        '{cap he} asked {a k1}. "I only know the way to [the water|my nest|the berries]," it '
        'said, "but ask the {k2}."',
        "The {k2} was asleep. [{h} waited politely.|{h} coughed softly.|{h} tickled its nose.] "
        '"Your house? [I smell {food} over there|I hear a bell from there|There is a light behind '
        'the trees]," it yawned.',
        "{h} went [that way|on and on|step by step] until {he} saw {spot}. {cap he} knew {spot}!",
    )
    p.tell(
        'There stood {f} with {a colour} {thing}. "I have been looking for you [everywhere|for '
        'hours]!" {fhe} cried.',
        "They [hugged|ran home hand in hand|laughed with relief]. At home there was {food}, and "
        "{h} [told about the {k1} and the {k2}|promised to leave a trail next time|fell asleep "
        "over the plate].",
    )


PLOTS: list[Callable[[Plot], None]] = [
    lost,
    making,
    fear,
    quarrel,
    rescue,
    contest,
    spoiled,
    skill,
    gift,
    magic,
    newcomer,
    forbidden,
    journey,
    growing,
    lost_way,
]
