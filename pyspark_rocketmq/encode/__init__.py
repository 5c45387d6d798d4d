"""Turn the rows of a DataFrame into send requests, without a Python object per cell.

    columns → faults → texts → ids → placing → requests

`columns` checks the columns of a record batch and gives each one type. `faults` finds the rows that no broker would
take. `texts` writes the properties of each row, `ids` makes message ids that a replay repeats, `placing` chooses queues
by key. `requests` groups the rows and writes the bodies. `settings` holds the options, `arrays` the operations on whole
arrays. Tests compare all of it with an encoder that goes row by row.
"""
