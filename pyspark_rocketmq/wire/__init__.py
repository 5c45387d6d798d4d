"""Encode and decode the bytes of RocketMQ's remoting protocol, without any input or output.

    frame           a byte stream cut into frames, and frames to send
    header          the headers of commands, as JSON or in binary form
    session         the requests and responses of one connection, matched by their opaques
    commands        the header fields of each request and of its response
    bodies          the JSON bodies of requests and responses
    fastjson        the JSON that Java's library fastjson writes
    value_classes   the base of header and body classes, compiled at first use
    codes           the codes of requests, responses and languages, and the bits of a message's sysFlag
    record          messages as brokers store them
    scan            the places of records in a response
    batch           several messages in one body
    properties      the properties of a message, as one text
    compression     compressed message bodies
    message_id      the two ids of a message
    host            hosts in stored messages and message ids

The names are RocketMQ's own. Clients and the stub broker share this code, so recorded frames of real brokers check it.

Received bytes may be damaged or malicious. They are decoded, or an error of `pyspark_rocketmq.errors` says why not; no
length, reference or compressed body in them makes memory grow beyond a limit.
"""
