"""Decode stored records into Arrow columns, without a Python object per message.

`columns` is the table of columns; it imports no Arrow. `decoder` gathers responses and makes record batches. `bulk`
finds the records of a batch and decodes the plain ones; `coverage` compares responses with what they cover; `irregular`
and `rows` read all other records one by one. `spans` (slices of a buffer), `shapes` (properties of texts that are
alike) and `entries` (properties of any texts) are the vector tools.
"""
