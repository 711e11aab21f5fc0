"""Word lists of the story grammar."""

from __future__ import annotations


def _rows(text: str) -> list[tuple[str, ...]]:
    """Lines of fields that are separated by ` / `."""
    return [tuple(f.strip() for f in line.split("/")) for line in text.strip().splitlines()]


KINDS = (
    """rabbit bear fox mouse squirrel hedgehog owl duck frog turtle puppy kitten lamb pony badger
mole otter beaver deer goat hen goose robin sparrow lizard snail bee ladybug butterfly panda tiger
lion elephant monkey giraffe zebra penguin seal dolphin whale crab octopus dragon robot elf dwarf
giant fairy snowman scarecrow""".split()
)

TRAITS = _rows("""
curious / asked questions all day long / wanted to know how everything worked
brave / was never afraid of the dark / liked to go first
shy / liked quiet corners best / often hid behind a book
kind / always shared what there was to share / could not see anyone cry
clever / solved riddles before breakfast / had a new idea every day
funny / made everybody laugh / told jokes at supper
stubborn / never gave up / did not like to hear the word no
careful / looked twice before every step / kept everything in its place
messy / never knew where the other sock was / left toys all over the floor
sleepy / could nap anywhere / yawned even at noon
hungry / thought about lunch after breakfast / always had crumbs in a pocket
noisy / sang from morning to night / drummed on every pot in the kitchen
gentle / spoke to flowers in a soft voice / carried beetles off the path
proud / liked to be the best at everything / did not like to ask for help
patient / could wait for hours / counted clouds to pass the time
cheerful / whistled on the way to school / found something good in every day
lonely / had nobody to play with / looked out of the window a lot
busy / was always building something / never sat still
dreamy / saw castles in the clouds / forgot what day it was
honest / never told a lie / said what was true even when it was hard
impatient / could not wait for anything / ran when others walked
lazy / liked to do things tomorrow / moved as slowly as honey
helpful / carried bags for the neighbors / washed the dishes without being asked
polite / never forgot to say please / bowed to cats and dogs
""")

PLACES = _rows("""
the park / swings and a round pond / the old oak tree / the wooden bench
the forest / tall pines and soft moss / the hollow log / the patch of ferns
the beach / white sand and small waves / the lighthouse / the tide pool
the market / stalls full of fruit and cheese / the fountain / the flower stall
the library / shelves up to the ceiling / the reading chair / the globe in the corner
the farm / a red barn and a muddy yard / the haystack / the water pump
the river / smooth stones and clear water / the little bridge / the willow
the hill / long grass and a wide view / the big rock / the stone wall
the garden / rows of beans and sunflowers / the shed / the rose bush
the meadow / daisies and humming bees / the brook / the crooked fence
the village / narrow lanes and blue doors / the well / the bell tower
the harbor / fishing boats and ropes / the pier / the pile of nets
the museum / dinosaur bones and old coins / the marble stairs / the suit of armor
the train station / a big clock and shiny rails / the ticket window / the last platform
the school / a chalkboard and a bell / the sandbox / the coat hooks
the bakery / warm bread and the smell of cinnamon / the big oven / the flour sacks
the castle / thick walls and a tall tower / the gate / the spiral stairs
the cave / cool air and dripping water / the flat stone / the echo wall
the lake / reeds and a floating dock / the rowboat / the island
the desert / golden dunes and a hot wind / the palm tree / the old tent
the mountain / snow on top and a steep path / the wooden hut / the waterfall
the zoo / parrots and sleepy lions / the monkey house / the duck pond
the circus / striped tents and bright lights / the ticket booth / the elephant ring
the attic / dusty boxes and a tiny window / the old trunk / the rocking horse
the orchard / apple trees in long rows / the ladder / the wheelbarrow
the playground / a slide and a climbing net / the seesaw / the drinking fountain
the windmill / creaking wings and sacks of grain / the millstone / the little door
the island / coconut trees and warm sand / the shipwreck / the bay
the town square / a statue and many pigeons / the cafe / the clock
the swamp / green water and croaking frogs / the rotten stump / the wooden walkway
the greenhouse / glass walls and wet leaves / the lemon tree / the watering can
the toy shop / shelves of trains and bears / the counter / the window display
""")

THINGS = _rows("""
kite / kites / string
ball / balls / stripes
doll / dolls / braids
teddy bear / teddy bears / button eyes
drum / drums / leather top
whistle / whistles / silver ring
scarf / scarves / long fringe
hat / hats / feather
book / books / gold letters
lantern / lanterns / glass sides
boat / boats / paper sail
train / trains / tiny wheels
crown / crowns / paper jewels
basket / baskets / strong handle
umbrella / umbrellas / wooden grip
key / keys / curly end
compass / compasses / trembling needle
bell / bells / clear ring
blanket / blankets / soft edge
music box / music boxes / dancing bird
flute / flutes / six holes
puzzle / puzzles / hundred pieces
wagon / wagons / squeaky wheels
mirror / mirrors / shell frame
necklace / necklaces / glass beads
ring / rings / blue stone
map / maps / dotted line
telescope / telescopes / brass tube
marble / marbles / swirl inside
coin / coins / ship on one side
mitten / mittens / snowflake pattern
backpack / backpacks / many pockets
skateboard / skateboards / loud wheels
bicycle / bicycles / shiny bell
pencil box / pencil boxes / secret drawer
paintbrush / paintbrushes / soft hair
clock / clocks / loud tick
feather / feathers / bright tip
shell / shells / pink inside
watering can / watering cans / long spout
""")

FOODS = """apple pie, carrot soup, honey bread, cheese sandwiches, berry jam, pancakes, noodle soup,
roasted chestnuts, plum cake, pumpkin pie, rice pudding, oat cookies, fruit salad, hot cocoa, corn
bread, tomato soup, cherry tart, walnut cake, mushroom stew, lemonade, banana bread, potato
dumplings, ginger cookies, vegetable pizza, blueberry muffins, peach ice cream, warm milk, popcorn,
cinnamon rolls, strawberry cake""".replace("\n", " ").split(", ")

WEATHER = _rows("""
sunny / the sun shone on every roof
windy / the wind pulled at hats and branches
rainy / the rain tapped on the windows
snowy / soft snow covered the ground
foggy / a white fog lay over everything
cloudy / gray clouds hung low
warm / the air smelled of grass
cold / everyone's breath made little clouds
stormy / thunder rolled far away
frosty / the puddles were covered with ice
bright / not a single cloud was in the sky
hot / even the cats looked for shade
""")

FEARS = _rows("""
the dark / a small lantern / hummed a song in the dark / the shadows were only chairs and coats
deep water / a cork belt / put one toe into the water / the water carried everyone who lay still
thunder / a warm blanket / counted between flash and boom / the storm was only clouds that bumped
high places / a strong rope / looked at the sky and not down / the view from above was wonderful
big dogs / a biscuit / held out a flat hand / the dog only wanted to play
spiders / a magnifying glass / looked at its tiny feet / the spider was busy and shy
the stage / a lucky ribbon / looked at one friendly face / the people in the chairs were friends
the dentist / a brave little song / opened wide and breathed slowly / it was over in a minute
loud noises / soft ear muffs / clapped along with the noise / a noise could not hurt anybody
the cellar / a jar of fireflies / walked down step by step / the cellar smelled of apples
bees / a bit of honey / stood very still / the bees only cared about flowers
getting lost / a ball of yarn / tied the yarn to the gate / there was always a way back
the wind / a heavy coat / leaned into the wind and laughed / the wind was a good friend of kites
strangers / a cheerful wave / said hello first / most strangers had kind eyes
""")

SKILLS = _rows("""
ride a bicycle / wobbled and fell into a bush / the handlebars shook / look far ahead and keep turning the pedals
swim / swallowed water and coughed / the legs sank / kick like a frog and breathe out slowly
whistle / blew only air / not a sound came out / wet your lips and make them round
bake bread / burned the first loaf / the second one was flat / let the dough rest before you bake it
skate / slid and sat down hard / the feet went two ways / bend your knees and push to the side
juggle / dropped all three balls / one ball rolled under a cart / watch the top and not your hands
paint / spilled the blue paint / the picture turned gray / wait until the first color is dry
tie a bow / made a big knot / the knot would not open / make two ears and cross them
play the flute / made a sound like a goose / the notes came out crooked / blow softly across the hole
climb a rope / slid down again / the hands burned / hold the rope between your feet
fly a kite / tore the tail / the kite dived into the mud / run against the wind
dance / stepped on many toes / the music was too fast / count to four and smile
read / mixed up the letters / the words swam about / put your finger under each word
row a boat / went around in circles / the oar splashed everybody / pull with both arms at the same time
knit / lost half of the stitches / the scarf had a hole / count your stitches after each row
sing / sang much too low / the frogs answered / listen first and then join in
skip stones / lost ten stones / every stone went plop / take a flat one and throw it low
tell stories / forgot the ending / everyone fell asleep / think of the last line first
catch a ball / missed it again and again / the ball bounced away / look at the ball and open your hands
grow tomatoes / watered them too much / the leaves turned yellow / give them sun and just a little water
""")

RESCUES = _rows("""
a kitten / up in a tree / a ladder / meowed / it could not climb down
a puppy / in a deep ditch / a long plank / whined / the sides were too steep
a bird / with a thorn in its wing / a soft cloth / chirped / it could not fly
a turtle / on its back / two flat sticks / waved its legs / it could not turn over
a lamb / between two fence boards / a saw / bleated / its head did not fit through
a fish / in a small puddle / a bucket / flapped / the sea was far away
a bee / in a jar of jam / a spoon / buzzed / its wings were sticky
a duckling / behind a grate / a bent wire / peeped / its mother was on the other side
a hedgehog / in a ball of string / a pair of scissors / sniffed / it could not move its feet
a squirrel / under a fallen branch / a strong lever / squeaked / the branch was too heavy
a pony / in the deep mud / a thick rope / snorted / it sank a little more each minute
a baby owl / on the cold ground / a warm nest of wool / hooted / it had fallen out of the nest
a snail / in the middle of the road / a big leaf / hid in its shell / a cart was coming
a butterfly / in a spider web / a thin straw / fluttered / the threads held it tight
a crab / in a glass bottle / a smooth stone / tapped / it had grown too big for the neck
a goat / on a narrow ledge / a trail of salt / called out / it did not dare to turn around
""")

MAKES = _rows("""
a tree house / boards / nails / a rope ladder
a raft / logs / a strong rope / an old sheet
a big cake / flour / eggs / sweet cherries
a kite / thin paper / light sticks / a long string
a scarecrow / straw / an old coat / a funny hat
a birdhouse / a wooden box / green paint / a handful of seeds
a pot of soup / carrots / beans / a pinch of salt
a flower crown / daisies / green stems / a red ribbon
a puppet show / old socks / colored buttons / a cardboard box
a lantern / glass / wire / a small candle
a quilt / pieces of cloth / thread / soft wool
a telescope / two lenses / a tube / brown tape
a garden bench / planks / screws / yellow paint
a band / a drum / a flute / a pair of bells
a snow fort / a shovel / a bucket / a flag
a toy train / wheels / small boxes / black paint
a sandcastle / a spade / shells / a paper flag
a wind chime / shells / string / a round stick
a picnic / bread / fruit / a checkered cloth
a book / clean paper / ink / a leather cover
""")

LOST_SPOTS = """under the bed, behind the sofa, in the laundry basket, on top of the cupboard,
in the garden shed, between two books, under a pile of leaves, in a bird's nest, inside an old boot,
behind the flower pots, in the bread box, under the stairs, in the coat pocket, in the doghouse,
beside the well, in the toy chest, on the windowsill, under the rug, behind the curtain,
in the wheelbarrow, at the bottom of the bag, in the mailbox, under the picnic blanket,
in the fork of a tree""".replace("\n", " ").split(", ")

MAGIC = _rows("""
a tiny bell / made everyone tell the truth / the whole street was full of hurt feelings
a silver spoon / turned soup into candy / everybody had a stomach ache
a green pencil / made drawings come alive / a drawn wolf ate all the cookies
a pair of shoes / ran as fast as the wind / they would not stop running
a little pot / cooked porridge forever / porridge flowed down the street
a gray stone / made people fall asleep / nobody was awake to open the shop
a blue feather / made things float / the kitchen table hung in a tree
a golden seed / grew in one night / its roots lifted the house
an old hat / made its owner invisible / nobody could find the one under it
a glass marble / showed tomorrow / there were no surprises any more
a wooden flute / made everyone dance / even the tired ones could not stop
a small mirror / doubled whatever it saw / there were two of every teacher
a red button / stopped the clocks / bedtime never came and neither did breakfast
a paper fan / called the wind / all the hats were gone
""")

CONTESTS = _rows("""
the big race / running / the finish line / a golden cup
the baking contest / baking / the long table / a silver whisk
the singing contest / singing / the little stage / a box of records
the boat race / rowing / the far buoy / a blue flag
the kite contest / kite flying / the top of the hill / a spool of silk string
the spelling contest / spelling / the last word / a thick dictionary
the sledding race / sledding / the bottom of the slope / a pair of warm mittens
the drawing contest / drawing / the gallery wall / a box of paints
the chess match / chess / the last board / a wooden king
the pumpkin contest / growing pumpkins / the great scale / a green ribbon
the dance contest / dancing / the bright floor / a pair of red shoes
the jumping contest / jumping / the sand pit / a shiny medal
""")

FORBIDDEN = _rows("""
open the blue box / the box was full of moths / the moths flew into every coat
eat the cake / only one slice was left / the guests had nothing with their tea
touch the vase / it slipped and broke / pieces lay all over the floor
go to the pond alone / the ice cracked / one boot was full of cold water
feed the goat from the table / the goat ate the tablecloth too / nothing was left of lunch
ring the big bell / the whole village came running / everyone thought there was a fire
climb the garden wall / a stone came loose / the beans were squashed
play with the paint / the cat turned green / green paws ran over the carpet
pick the roses / the thorns scratched / the bush looked bare and sad
push the red lever / the mill began to turn / flour flew everywhere
open the gate / the sheep ran out / white sheep stood in every garden
borrow the watch / it fell into the well / the ticking stopped
use the big scissors / the curtain was cut in two / the room was much too bright
leave the path / the mud was deep / both shoes were stuck
""")

SEEDS = _rows("""
sunflower / rabbits / a little fence / taller than the house
pumpkin / snails / a ring of sand / as big as a wagon
bean / crows / a shiny ribbon / up to the roof
strawberry / ants / a saucer of sugar water / redder than a fire truck
apple / caterpillars / a family of birds / full of sweet fruit
carrot / moles / a humming bottle / longer than an arm
tomato / beetles / a row of marigolds / round and heavy
cherry / starlings / a silver bell / covered with white flowers
melon / mice / a friendly cat / too heavy to lift
corn / raccoons / a night light / high and golden
""")

SIGHTS = _rows("""
the sunrise / from the top of the mountain / the sky turned pink and gold
the sea / behind the last hill / the water reached to the end of the world
the falling stars / on the open field / bright lines crossed the sky
the old lighthouse / at the end of the coast / its lamp turned slowly
the whales / beyond the bay / a gray back rose out of the water
the giant tree / in the middle of the forest / ten children could not reach around it
the rainbow bridge / above the gorge / colors hung in the spray
the night market / on the other side of the river / a thousand lamps swung in the wind
the snow geese / at the frozen lake / they rose like a white cloud
the wild horses / on the high plain / the ground shook under their feet
the great waterfall / deep in the valley / the water sang and thundered
the fireflies / in the dark meadow / small lights danced over the grass
the castle ruins / on the steep rock / ivy covered the windows
the first steam train / down at the station / it puffed like a friendly dragon
""")

OBSTACLES = _rows("""
a wide river / there was no bridge / tied three logs together / floated across
a thick wall of thorns / every branch scratched / found a rabbit tunnel / crawled through
a grumpy goose / it hissed at everyone / offered it some bread / tiptoed past
a heavy gate / the lock was rusty / rubbed it with a bit of butter / pushed it open
a deep ravine / stones fell without a sound / found a fallen tree / balanced across
a crossroads / the sign had no letters / asked a snail for the way / took the left path
a dark tunnel / water dripped from above / sang loudly / walked through hand in hand
a steep slope / the ground was slippery / dug small steps / climbed up one by one
a field of nettles / they stung like needles / laid down a plank / walked over it
a sleeping bull / it lay across the path / whispered and took off their shoes / sneaked around
a cold fog / nobody could see a thing / followed the sound of a bell / found the road again
a muddy field / every step made a sucking noise / stepped only on the stones / got across
a broken bridge / two boards were missing / put down a door that lay in the grass / crossed carefully
a hungry troll / he wanted toll / paid with a good joke / were let through
""")

HELPERS = """old fisherman, friendly baker, wise owl, mail carrier, tired soldier, young shepherd,
kind librarian, beekeeper, clockmaker, retired sailor, street musician, gardener, traveling tailor,
quiet blacksmith, doctor, school cook, bus driver, little sister, big brother, grandfather,
grandmother, uncle, aunt, neighbor, gray cat, talking crow, old turtle, busy beaver, shy deer,
night watchman, ferry woman, chimney sweep, painter, carpenter, train driver, farmer,
firefighter, nurse, potter, magician, lighthouse keeper, teacher""".replace("\n", " ").split(", ")

HOBBIES = """collecting stones, drawing birds, building towers, watching ants, folding paper boats,
counting trains, telling riddles, playing checkers, looking at the stars, making masks,
flying kites, reading about pirates, feeding ducks, growing beans, singing rounds,
jumping rope, making maps, playing hide and seek, baking tiny cakes,
looking for four-leaf clovers""".replace("\n", " ").split(", ")

LESSONS = _rows("""
sharing makes everything twice as good
a friend is worth more than a prize
it is all right to ask for help
small steps take you far
the truth is lighter than a lie
being brave means trying even when your knees shake
good things take time
nobody is too small to help
kindness always comes back
you learn most from the things that go wrong
what is lost may be closer than you think
a promise is a promise
listening is a kind of magic
two heads are better than one
patience wins in the end
even a rainy day can be a good day
""")
LESSONS = [row[0] for row in LESSONS]

PETS = "dog cat parrot hamster rabbit goldfish pony hen duck tortoise".split()

NOUNS = (
    """acorn almanac anchor apron arrow axe badge bagel banner barrel basin beetle blackberry bonnet
bookmark bottle bouquet bowl bracelet branch brick bridge bristle broom brush bubble bucket buckle
bugle bundle bunting cabbage cabin candle cane canoe cap caravan carpet cart cartwheel cauldron
chalk chest chestnut chimney cloak clover coal coaster cobweb cocoon comb cone cork cottage cradle
crayon cricket crumb cube cucumber cupboard curtain cushion dagger dandelion dart desk diary dice
dish doorbell doorknob dragonfly drawer drawing dustpan easel eggshell envelope fan feather fern
fiddle fig figurine flagpole flask fountain fork frame funnel garland gate gem glove goblet gourd
grape grasshopper griddle hammer hammock handbag handkerchief harmonica harp hatbox hazelnut helmet
hinge hook horn horseshoe hourglass icicle inkwell jacket jar jewel jug kayak kennel kettle kite
knapsack knob knot ladder ladle lamp lantern leaf lemon letter lid lighter lily lock locket log
lunchbox magnet mallet mandolin marigold mask matchbox medal melon moccasin mop moth mug mushroom
mustard nail napkin needle nest net newspaper notebook nut oar olive onion orchid oven owl paddle
padlock pail painting pan pancake parasol parcel parsnip patch peach peanut pearl pebble pedal
pegboard pendant pepper petal pickle pie pigeon pillow pinecone pinwheel pipe pitcher plate plum
pocketknife poppy postcard pot potato pouch prune pulley pumpkin purse quill rack radish raft raisin
rake rattle razor recipe ribbon robe rocket roof rope rosebud ruler sack saddle sail sandal satchel
saucepan saucer saw scale screw shawl sheet shield shovel sieve signpost skein skillet slate sled
slipper snail snowball soap sock spade spinning top spool spoon spring sprout stamp statue stem
stick stocking stool stove strainer straw suitcase sundial sunflower swing table tambourine
tapestry tart
tassel teacup teapot tent thermos thimble thistle thread ticket tin toffee torch towel tray treasure
trowel trumpet tub tulip turnip turtle twig vase vest viola violet wagon walnut wand watermelon
weathervane wheel whisk wick windmill wreath xylophone yarn zipper""".split()
)
NOUNS = [n for n in NOUNS if n not in ("spinning", "top")]

LOOKS = (
    """ancient bent blazing blurry bold brass broken bulky bumpy carved cheap chipped clean clumsy
copper cracked creaky crisp crooked crumpled curly dainty damp delicate dented dirty dotted dusty
elegant empty enormous faded fancy fine flat fluffy folded forgotten fragile fresh frozen furry
fuzzy gigantic glassy gleaming glittering glowing graceful greasy grubby handmade heavy hollow huge
icy iron ivory jagged knitted leaky leather light lopsided lovely massive mended mighty muddy narrow
neat noble odd oval painted pale patched peculiar plain pointed polished precious pretty quaint
ragged rare restless rotten rough round rugged rusty scratched scruffy shabby shallow sharp shiny
silky simple slender slim slippery smoky smooth soft solid sparkling speckled spiral splendid
spotless spotted square stained steep sticky stiff straight strange striped sturdy tall tattered
thick thin tidy tiny torn tough transparent twisted ugly unusual velvet warm weathered wet wide
wobbly woolen wooden worn wrinkled""".split()
)

SMELLS = """fresh bread, wet leaves, pine needles, salt and seaweed, cut grass, warm milk, smoke,
ripe apples, lavender, soap, rain, old books, roasted nuts, mud, orange peel, vanilla, candle wax,
hay, mint, coffee, dry wood, roses, fish, onions, melted butter, chalk, leather, cinnamon,
snow, garlic""".replace(
    "\n", " "
).split(
    ", "
)

SOUNDS = _rows("""
a dog / barked
a door / slammed
a bell / rang twice
a cricket / chirped
an owl / hooted
a rooster / crowed
a train / whistled
a floorboard / creaked
a kettle / hummed
a clock / struck the hour
a frog / croaked
a woodpecker / knocked
a cart / rattled by
a child / giggled
a gate / squeaked
a seagull / screamed
a radio / played softly
a shutter / banged in the wind
a brook / murmured
a horse / neighed
a cow / mooed
a hammer / tapped
a crow / cawed
a cat / purred
a motor / coughed
""")

MOVES = """strolled wandered hurried skipped marched trotted tiptoed raced crept hopped paraded
shuffled stumbled dashed galloped climbed trudged drifted rushed jogged limped waddled darted
strode ambled roamed sprinted scurried plodded bounced""".split()

ADVERBS = (
    """quietly slowly quickly happily carefully eagerly bravely calmly cheerfully gladly gently
hastily loudly lazily merrily neatly nervously patiently politely proudly quaintly sleepily softly
stubbornly suddenly thoughtfully wearily wildly wisely boldly""".split()
)
ADVERBS = [a for a in ADVERBS if a not in ("suddenly", "quaintly")]

GARMENTS = """coat sweater jacket scarf cap vest dress skirt shirt hood cape raincoat apron cardigan
tunic poncho pullover hat bonnet kilt jersey blouse robe waistcoat overall anorak shawl
sunhat headband belt""".split()

SIMILES = _rows("""
quiet / a mouse under snow
bright / a new coin
cold / a fish's nose
slow / a snail on Sunday
soft / a cloud
loud / a brass band
light / a feather
strong / an ox
busy / a beehive
dark / the inside of a boot
old / the hills
warm / toast
clear / a bell
tall / a chimney
white / milk
still / a stone
round / a button
thin / a thread
heavy / a piano
happy / a lark
""")
