"""Talk to a cluster by topic, queue and group, and follow its changes.

    cluster        the cluster as one object: start here
    settings       addresses, credentials, and how often requests are repeated
    routes         the queues and brokers of a topic at one moment (pure); route_table: the routes in force now
    names          namespaces (pure)          signing, credentials_file   access control
    links          connections                servers                     typed requests to one server
    retrying       repetition                 nameserver, broker          which server gets a request
    queue_offsets, searches, groups, messages, compaction, admin          the requests themselves

Every request takes a deadline and returns the library's nouns, or raises an error that names server, request, topic,
broker, queue and group. Errors decide by their flags: a `retriable` one is repeated, except by requests that store
messages; one with `refresh_routes` has the route fetched again.
"""
