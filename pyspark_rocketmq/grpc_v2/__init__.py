"""Define the messages of RocketMQ 5's gRPC API, and translate them to and from stored messages.

`message_fields` lists the fields of each message and `enums` the numbers; `schema` makes message classes from them.
`methods` lists the methods of the service. `translation` converts between a message of the API and a message as brokers
store it; `times` converts times. `metadata` defines and signs the metadata of a call. No module here opens a
connection.
"""
