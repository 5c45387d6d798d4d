"""How do record bytes become columns without a Python object per message?

`layout` names the columns a user can ask for (no Arrow, cheap to import), `schema` gives their Arrow types,
`spans`, `starts`, `entries`, `shapes` and `shaped` are the vector tools (slices of a buffer; where records begin; the
entries of many property texts, split; what texts have in common; entries found where those of their like lie),
`rows` reads one message the readable way, and `columns` puts record batches together: in bulk where the
records are plain, row by row where they are odd (packed bodies, IPv6 hosts, inner batches, long topics). `memory`
keeps what one batch needed for the next.
"""
