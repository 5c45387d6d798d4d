"""Which option names exist, what do they default to, and which settings object do they fill?

table       every option: names, uses, kind of value, default, meaning
values      how each kind of value is read
names       which option a key means, what a misspelt key probably meant
refused     names of other products, and what to say instead
given       what the user gave, as values
conflicts   what does not go together
build       from values to the settings of the rooms below
page        the page for users, made from all this
"""

from __future__ import annotations

from .parse import parse_helper_options, parse_reader_options
from .reader_options import HelperOptions, ReaderOptions

__all__ = ["HelperOptions", "ReaderOptions", "parse_helper_options", "parse_reader_options"]
