"""Open connections, send requests over them, and end every request with a response or an error.

    settings        the settings of a connection: timeouts, limits, TLS
    deadline        moments until which an operation may wait
    backoff         delays between attempts
    allowed         the addresses to which connections may be opened
    transport       one TCP or TLS stream; the only module that opens them
    tls_stream      TLS over a socket, a bounded piece at a time
    failures        the errors of requests that get no response
    connection      the requests and responses of one stream, sent and received in the caller's thread
    inbound         requests sent by the server, which wait to be served
    threaded        a connection with a thread of its own, for callers in any thread
    pool            open connections for repeated use, within one process
    pipeline        many requests of one kind in flight, over one connection per address
    host            the address under which other machines can reach this one
    greeting        the protocol of a server that is no RocketMQ server

A connection returns the server's response, whatever its response code is. It raises when there is no response:
`RequestTimeout` ends one request; every other error ends the connection and all its requests.

A firewall or a proxy may drop a connection without telling client or server. So a connection is *mute* once a request
has timed out on it while no byte arrived; pools return no mute connection.
"""
