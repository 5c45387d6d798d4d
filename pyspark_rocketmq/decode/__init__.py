"""Decode stored records into Arrow columns, without a Python object per message.

`columns` defines the table of columns; it does not import Arrow. `decoder` gathers responses and makes record batches.
`bulk` finds the records of a batch and decodes the plain ones; `coverage` checks that responses are complete;
`irregular` and `rows` decode all other records one by one; `inner` prepares large inner batches for `bulk`. Helpers for
whole arrays are `spans` (cuts slices out of a buffer), `shapes` (finds properties in texts with the same names) and
`entries` (finds them in any regular texts). `outcomes` reads columns as rows.
"""
