"""The tools that chats offer: what they take, how a user asks for them, what they return, what is said of it."""

from dataclasses import dataclass
from typing import Any

from training.corpus.words import CITIES, COLOURS, DAYS, MONTHS, NAMES, THINGS, WORDS

VALUES: dict[str, tuple[str, ...]] = {
    "city": CITIES,
    "to": CITIES,
    "name": NAMES,
    "day": DAYS,
    "month": MONTHS,
    "colour": COLOURS,
    "item": THINGS,
    "word": WORDS,
    "title": WORDS,
    "text": WORDS,
    "room": ("kitchen", "garden", "school", "shop", "office", "hall"),
    "sky": ("sunny", "cloudy", "rainy", "windy"),
}
# Every other parameter and result is a number up to this.
NUMBERS = {
    "hour": 23,
    "minutes": 59,
    "count": 20,
    "amount": 99,
    "price": 99,
    "temperature": 30,
    "level": 10,
    "page": 99,
}


@dataclass(frozen=True)
class Tool:
    """`request` and `answer` name the parameters and the result's values; `on` is the one boolean parameter."""

    name: str
    description: str
    parameters: tuple[str, ...]
    requests: tuple[str, ...]
    result: str
    answer: str

    def schema(self) -> dict[str, Any]:
        """The tool as Chat Completions offers it."""
        properties = {name: {"type": parameter_type(name)} for name in self.parameters}
        parameters = {"type": "object", "properties": properties, "required": list(self.parameters)}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


def parameter_type(name: str) -> str:
    return "boolean" if name == "on" else "integer" if name in NUMBERS else "string"


_TABLE = """
get_weather|Get the weather of a city.|city|What is the weather in {city}?;How is the weather in {city}?|
    {sky}, {temperature} degrees|It is {sky} in {city}, {temperature} degrees.
get_time|Get the time in a city.|city|What time is it in {city}?;Tell me the time in {city}.|
    {hour}|It is {hour} in {city}.
get_map|Get a map of a city.|city|Show me a map of {city}.|
    map {page}|The map of {city} is on page {page}.
find_hotel|Find a hotel in a city.|city,count|Find a hotel in {city} for {count} people.|
    {price} dollars|A hotel in {city} for {count} people is {price} dollars.
find_train|Find a train.|city,to|Find a train from {city} to {to}.;Is there a train from {city} to {to}?|
    {hour}|There is a train from {city} to {to} at {hour}.
find_flight|Find a flight.|city,to,day|Find a flight from {city} to {to} on {day}.|
    {price} dollars|The flight from {city} to {to} on {day} is {price} dollars.
buy_ticket|Buy a ticket to a city.|city,day|Buy a ticket to {city} on {day}.|
    done|The ticket to {city} on {day} is bought.
set_alarm|Set an alarm.|hour,minutes|Set an alarm for {hour}:{minutes}.;Wake me at {hour}:{minutes}.|
    done|The alarm is set for {hour}:{minutes}.
set_timer|Set a timer.|minutes|Set a timer for {minutes} minutes.|
    done|The timer is set for {minutes} minutes.
set_light|Turn the light on or off.|room,on|Turn {on} the light in the {room}.|
    done|The light in the {room} is {on}.
set_music|Turn the music on or off.|room,on|Turn {on} the music in the {room}.|
    done|The music in the {room} is {on}.
set_colour|Set the colour of the light.|room,colour|Make the light in the {room} {colour}.|
    done|The light in the {room} is {colour}.
set_heat|Set the heat of a room.|room,temperature|Set the heat in the {room} to {temperature}.|
    done|The heat in the {room} is {temperature}.
lock_door|Lock a door.|room,on|Turn {on} the lock of the {room} door.|
    done|The lock of the {room} door is {on}.
call_person|Call a person.|name|Call {name}.;Please call {name}.|
    busy|{name} is busy.
send_message|Send a message to a person.|name,text|Send the message {text} to {name}.|
    done|The message {text} is sent to {name}.
send_money|Send money to a person.|name,amount|Send {amount} dollars to {name}.|
    done|{amount} dollars are sent to {name}.
get_phone|Get the phone number of a person.|name|What is the phone number of {name}?|
    {price}{amount}|The phone number of {name} is {price}{amount}.
get_birthday|Get the birthday of a person.|name|When is the birthday of {name}?|
    {month} {hour}|The birthday of {name} is {month} {hour}.
add_event|Add an event on a day.|title,day|Add the event {title} on {day}.|
    done|The event {title} is added on {day}.
get_events|Get the events of a day.|day|What are the events on {day}?|
    {word}|The event on {day} is {word}.
meet_person|Plan to meet a person.|name,day,hour|Plan to meet {name} on {day} at {hour}.|
    done|You meet {name} on {day} at {hour}.
add_item|Add an item to the list.|item,count|Add {count} {item} to the list.|
    done|{count} {item} are added to the list.
buy_item|Buy an item.|item,count|Buy {count} {item}.;Please buy {count} {item}.|
    {price} dollars|{count} {item} are bought for {price} dollars.
get_price|Get the price of an item.|item|What is the price of a {item}?;How much is a {item}?|
    {price}|The price of a {item} is {price} dollars.
find_item|Find an item.|item|Where is the {item}?;Find the {item}.|
    {room}|The {item} is in the {room}.
paint_item|Paint an item.|item,colour|Paint the {item} {colour}.|
    done|The {item} is {colour}.
search_book|Search for a book.|title|Search for the book {title}.|
    page {page}|The book {title} is on page {page}.
read_page|Read a page of a book.|title,page|Read page {page} of the book {title}.|
    {word} {item}|Page {page} of the book {title} says {word} {item}.
play_song|Play a song.|title|Play the song {title}.|
    done|The song {title} is playing.
search_web|Search the web.|word|Search the web for {word}.|
    {page} pages|There are {page} pages for {word}.
translate_word|Translate a word.|word|Translate the word {word}.|
    {item}|The word {word} is {item}.
write_note|Write a note.|text|Write the note {text}.|
    done|The note {text} is written.
set_level|Set the level of the music.|level|Set the music to level {level}.|
    done|The music is at level {level}.
draw_box|Draw a box.|colour,count|Draw {count} boxes in {colour}.|
    done|{count} boxes in {colour} are drawn.
count_word|Count a word in a text.|word,text|Count {word} in the text {text}.|
    {count}|The word {word} is {count} times in the text {text}.
"""

_ROWS = [row.split("|") for row in _TABLE.replace("|\n    ", "|").strip().splitlines()]
TOOLS = tuple(
    Tool(name, description, tuple(parameters.split(",")), tuple(requests.split(";")), result, answer)
    for name, description, parameters, requests, result, answer in _ROWS
)
