"""Who owns this queue now, and what do we do when that changes?

    cluster      the cluster as one object: start here
    settings     whom to ask, as whom, how patiently
    routes       the queues and brokers of a topic, as of one moment (pure)
    route_table  which route is in force now       names      namespaces (pure)     signing   access control (pure)
    links        over which connections             requests   how a question travels, and what its answer means
    retrying     what may be tried again            nameserver, broker   who is asked, and who instead
    offsets, times, groups, messages, admin         the questions themselves

Every question takes a deadline and answers in our nouns, or raises an error that names server, request, topic, broker,
queue and group. Errors decide by their flags: `retriable` ones are tried again, except by what stores messages;
`refresh_routes` ones have the route fetched anew.
"""
