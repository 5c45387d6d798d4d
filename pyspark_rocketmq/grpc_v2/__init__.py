"""How is each message of the gRPC API of RocketMQ 5 laid out, and what does it correspond to in our model?

`layouts` are tables of fields, `enums` the numbers, and `schema` makes classes of them; `methods` is the service.
`translation` stands between a message there and a message as brokers store it, `metadata` is what goes with each call.
No module here opens a connection.
"""
