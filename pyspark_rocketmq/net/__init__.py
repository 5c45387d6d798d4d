"""Carry bytes to one address and back, and end every request with a response or an error.

    settings        what a connection needs to know: timeouts, limits, TLS
    deadline        moments until which steps may wait
    backoff         delays between attempts
    transport       one TCP or TLS stream; the only module that opens sockets
    tls_stream      TLS over a socket, a bounded piece at a time
    failures        the errors of requests that get no response
    connection      one stream and the conversation on it, driven by its caller
    inbound         the server's own requests that wait to be served
    threaded        a connection with a thread of its own, for callers in any thread
    pool            connections kept for the next caller, process by process
    pipeline        many requests of one kind in flight, over one connection per address

A connection returns the server's command, whatever its response code says. It raises when there is no response:
`RequestTimeout` ends one request; every other error ends the connection and all its requests with it.

A network that has lost track of a connection tells neither side. So a connection is *mute* once a request has timed out
on it while no byte at all arrived; pools hand out no mute connection.
"""
