"""Send requests about topics, queues and groups to the right servers of a cluster, and follow its changes.

    cluster        the cluster as one object: start here
    settings       addresses, credentials, and how often requests are repeated
    routes         the queues and brokers of a topic at one moment (pure); route_table: the current routes of all topics
    names          namespaces (pure)          signing, credentials_file, regular_file   access control
    links          connections                servers                     typed requests to one server
    retrying       repetition                 nameserver, broker          which server gets a request
    queue_offsets, searches, groups, messages, compaction, admin          the requests themselves
    survey         the same request to all brokers, whose errors are results

Every request takes a deadline. It returns values of this library's classes, or raises an error that names server,
request, topic, broker, queue and group. The flags of an error decide what happens next: after a `retriable` error the
request is repeated, unless it stores messages; after one with `refresh_routes` the route is fetched again.
"""
