"""Parse the user's options, and build the settings of the rooms below from them.

parse       the way from Spark's strings to settings
keys        which option a key means, and which one a misspelt key probably meant
refused     names of other products, and what to use instead
table       every option: names, where it applies (streaming read, batch read, write, helper), value, default, meaning
values      how the text of each kind of value is read; queue_json: values that name queues
given       the values that the user gave
conflicts   which options do not go together; rules: the kinds of such rules
build       from values to the settings of the rooms below
page        the page for users, generated from all this
"""

from __future__ import annotations

from .parse import (
    batch_keys,
    condition_key,
    parse_helper_options,
    parse_reader_options,
    parse_writer_options,
    require_topics,
)
from .reader_options import HelperOptions, ReaderOptions
from .writer_options import WriterOptions

__all__ = [
    "HelperOptions",
    "ReaderOptions",
    "WriterOptions",
    "batch_keys",
    "condition_key",
    "parse_helper_options",
    "parse_reader_options",
    "parse_writer_options",
    "require_topics",
]
