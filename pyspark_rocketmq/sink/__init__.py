"""Write the rows of a DataFrame to topics: answer the calls that Spark makes on a writer.

    writers → task → outgoing → send.SendPipeline

`writers` has the objects that Spark calls on the driver and pickles for the tasks. `schema` checks the columns, and
`queues` lists the writable queues of a topic once per batch. `identity` finds out which batch of which query is
written. On executors, `task` encodes the rows of one task and sends them, `outgoing` counts what becomes of them, and
`bad_rows` deals with rows that cannot be sent. `report` has the figures that a task returns and the driver logs.
"""
