"""List the options that say which columns a row has, and how broken messages are shown."""

from __future__ import annotations

from ...decode.columns import COLUMNS, Layout, Mode
from ...errors import OptionError
from ..option import Option, section
from ..values import BOOLEAN, Kind, OptionText, choice, words

_BY_LOWER_NAME = {name.lower(): name for name in COLUMNS}


def read_columns(given: OptionText) -> tuple[str, ...]:
    """Return the names of columns, matched without case; `*`, which stands for the default, gives an empty tuple."""
    if given.text == "*":
        return ()
    names = [part.strip() for part in given.text.split(",")]
    found = tuple(_BY_LOWER_NAME.get(name.lower(), name) for name in names)
    if unknown := [name for name in found if name not in COLUMNS]:
        what, advice = f"unknown column {unknown[0]!r}", f"columns are {', '.join(COLUMNS)}"
        raise OptionError(given.option, given.text, what, advice=advice)
    if len(set(found)) < len(found):
        raise OptionError(given.option, given.text, "a column is named twice", advice="name each column once")
    return found


ROW_LAYOUT = Option("rowLayout", "SB", words(Layout), "rocketmq", meaning="The set of columns.")
CHOSEN_COLUMNS = Option(
    "columns",
    "SB",
    Kind("`*`, or list of column names of both layouts", read_columns),
    otherwise="the layout's default set",
    meaning="Columns, in order. Spark cannot leave out columns of a Python source by itself, so choose few columns to "
    "save work; the map column `properties` alone costs 20 to 30 % of the rate.",
)
INCLUDE_HEADERS = Option(
    "includeHeaders", "SB", BOOLEAN, "false", meaning="Adds `headers` to the default set of layout `kafka`."
)
PROPERTIES_FORMAT = Option(
    "propertiesFormat",
    "SB",
    choice({"map": False, "json": True}),
    "map",
    meaning="Type of `properties`; `json` text reads about a quarter faster.",
)
SYSTEM_PROPERTIES = Option(
    "includeSystemProperties", "SB", BOOLEAN, "false", meaning="Show RocketMQ's own properties, too."
)
MODE = Option(
    "mode",
    "SB",
    words(Mode),
    "FAILFAST",
    meaning="Treatment of a body that cannot be unpacked and of broken property text: fail, null, or leave the row out "
    "and count it.",
)
CHECK_CRC = Option(
    "checkCrc",
    "SB",
    BOOLEAN,
    "false",
    meaning="Compare each stored body with its CRC if a column shows the body; `mode` decides about one that differs. "
    "Costs 0.3 µs for a body of 100 bytes and 0.5 µs for one of 1 KiB, more than decoding the whole message.",
)

SECTION = section("Rows", globals())
