"""Define the messages of RocketMQ 5's gRPC API, and translate them to and from stored messages.

`message_fields` are tables of fields, `enums` the numbers, and `schema` makes message classes of them; `methods` is the
service. `translation` converts between a message of the API and a message as brokers store it. `metadata` travels with
each call. No module here opens a connection.
"""
