"""Send requests to brokers, many at a time, each until it is stored or has failed.

    schedule → pipeline → outcomes

`schedule` decides which request may go now, to which queue, and after which pause; it knows no socket. `frames` writes
the requests of one broker and topic, and reads receipts. `pipeline` joins both with connections and routes, for one
thread. `settings` and `outcome` hold the limits and the results.
"""
