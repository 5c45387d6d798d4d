"""How do bytes reach one address, and how does that end?

    settings        what a connection needs to know: time-outs, limits, TLS
    deadline        until when?             backoff     how long until the next attempt?
    transport       one TCP or TLS stream; the only module that opens sockets
    tls_stream      TLS over a socket, a bounded piece at a time
    outbox          what waits to be sent   failures    with which error does a request end?
    questions       the server's own requests that wait to be served
    channel         one stream and the conversation held over it; never waits
    connection      the channel driven by its caller, in one thread
    threaded        the channel driven by a thread of its own, for callers in any thread
    pool            connections kept for the next caller, process by process

A connection answers with the server's command whatever its response code says. It raises when there is no answer:
`RequestTimeout` ends one request; every other error ends the connection and all its requests with it.

A network that has forgotten a connection tells neither side. So one on which a request timed out while nothing at all
was heard is *mute* until it is heard again, and pools hand out no mute connection.
"""
