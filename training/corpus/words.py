# ruff: noqa: SIM905 - word lists read best as text
"""The small closed vocabulary that everything but the facts is written with."""

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December")  # fmt: skip
MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")

NAMES = tuple("Anna Ben Clara David Emma Felix Grace Henry Ida Jack Kate Leo Maria Nina Oscar Paul Rosa Sam Tom Vera "
              "Will Zoe Max Lucy".split())  # fmt: skip
CITIES = tuple("Paris Berlin Rome Madrid London Tokyo Vienna Athens Oslo Cairo Lima Dublin Prague Warsaw Lisbon "
               "Moscow Seoul Havana Nairobi Ottawa".split())  # fmt: skip
COLOURS = tuple("red blue green yellow black white brown pink".split())
THINGS = tuple("apple ball book box boat bread cake chair coat cup desk door flower garden hat house key lamp letter "
               "map milk moon paper pen phone plate ring river road rock school shoe song spoon star stone street "
               "table ticket tower train tree wall water window wood bell coin gold hand leaf rain salt sand silver "
               "snow".split())  # fmt: skip
ANIMALS = tuple("bear bird cat cow dog duck fish fox frog goat horse lion mouse pig rabbit sheep".split())
PLACES = tuple("beach city farm forest garden kitchen lake market park school shop village".split())
WORDS = tuple(dict.fromkeys(THINGS + ANIMALS + PLACES))

_ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
         "seventeen eighteen nineteen").split()  # fmt: skip
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def number_word(number: int) -> str:
    """`number` from 0 to 100 in words, as in `thirty-seven`."""
    assert 0 <= number <= 100, number
    if number == 100:
        return "one hundred"
    if number < 20:
        return _ONES[number]
    tens = _TENS[number // 10 - 2]
    return tens if number % 10 == 0 else f"{tens}-{_ONES[number % 10]}"


OPPOSITES = dict(pair.split() for pair in """
hot cold|big small|old young|fast slow|high low|light dark|good bad|happy sad|open closed|full empty|rich poor
strong weak|long short|wide narrow|hard soft|early late|first last|near far|up down|left right|in out|day night
summer winter|black white|true false|yes no|north south|east west|wet dry|clean dirty|loud quiet|thick thin
heavy easy|over under|always never|love hate|start end|win lose|push pull|give take|buy sell|question answer
""".replace("heavy easy", "difficult easy").replace("\n", "|").strip("|").split("|"))  # fmt: skip

PLURALS = dict(pair.split() for pair in """
mouse mice|child children|man men|woman women|foot feet|tooth teeth|goose geese|person people|ox oxen|sheep sheep
fish fish|cat cats|dog dogs|tree trees|house houses|city cities|baby babies|box boxes|bus buses|leaf leaves
wolf wolves|knife knives|life lives|wife wives|half halves|potato potatoes|tomato tomatoes|hero heroes|day days
key keys|boy boys|lady ladies|story stories|watch watches|dish dishes|glass glasses|book books|star stars
""".replace("\n", "|").strip("|").split("|"))  # fmt: skip

COLOUR_OF = dict(pair.split() for pair in """
snow white|grass green|coal black|blood red|milk white|gold yellow|chocolate brown|lemons yellow|tomatoes red
carrots orange|cherries red|bananas yellow|frogs green|clouds white|ravens black|swans white|mud brown|peas green
""".replace("\n", "|").strip("|").split("|"))  # fmt: skip

UNIT_COUNTS = {
    "seconds in a minute": 60, "minutes in an hour": 60, "hours in a day": 24, "days in a week": 7,
    "months in a year": 12, "weeks in a year": 52, "days in a year": 365, "years in a century": 100,
    "years in a decade": 10, "metres in a kilometre": 1000, "grams in a kilogram": 1000,
    "centimetres in a metre": 100, "legs on a spider": 8, "legs on a dog": 4, "legs on an insect": 6,
    "wheels on a bicycle": 2, "items in a dozen": 12, "sides of a triangle": 3, "sides of a square": 4,
    "cents in a dollar": 100, "letters in the alphabet": 26, "players in a football team": 11,
}  # fmt: skip
