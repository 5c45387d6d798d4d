"""Which columns does a row have, and what becomes of broken ones?"""

from __future__ import annotations

from ...decode.columns import Layout, Mode, parse_columns
from ..option import Option, section
from ..values import BOOLEAN, Entry, Kind, choice, words


def _read_columns(entry: Entry) -> tuple[str, ...]:
    """Names of columns, none for `*`."""
    return parse_columns(entry.text, ())


ROW_LAYOUT = Option("rowLayout", "SB", "T1", words(Layout), "rocketmq", meaning="The set of columns.")
COLUMNS = Option(
    "columns",
    "SB",
    "T1",
    Kind("`*`, or list of column names of both layouts", _read_columns),
    otherwise="the layout's default set",
    meaning="Which columns, in which order. Spark cannot leave columns out by itself here, so this is the way to save "
    "work; the map column `properties` alone costs about a third of the rate.",
)
INCLUDE_HEADERS = Option(
    "includeHeaders",
    "SB",
    "T2",
    BOOLEAN,
    "false",
    meaning="Adds `headers` to the default set of layout `kafka`.",
)
PROPERTIES_FORMAT = Option(
    "propertiesFormat",
    "SB",
    "T2",
    choice({"map": False, "json": True}),
    "map",
    meaning="Type of `properties`; `json` text reads about a quarter faster.",
)
SYSTEM_PROPERTIES = Option(
    "includeSystemProperties",
    "SB",
    "T2",
    BOOLEAN,
    "false",
    meaning="Show RocketMQ's own properties, too.",
)
MODE = Option(
    "mode",
    "SB",
    "T2",
    words(Mode),
    "FAILFAST",
    meaning="A body that cannot be unpacked or broken property text: fail, null, or leave the row out and count it.",
)

SECTION = section("Rows", globals())
