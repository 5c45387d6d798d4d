"""Write the rows of a DataFrame to topics: answer the calls that Spark makes on a writer.

    writers → task → outgoing → send.SendPipeline

`writers` has the objects that Spark calls on the driver and pickles for the tasks. `schema` checks the columns, and
`queues` lists the writable queues of a topic once per batch. `identity` finds out which batch of which query is
written. On executors, `task` encodes the rows of one task and sends them, `outgoing` counts what becomes of them, and
`bad_rows` deals with rows that cannot be sent. `report` has the figures that a task returns and the driver logs.

What keeps a row from being written has these words:

    fault           the column, and the reason, because of which no broker would take a row; found before it is sent
    refused row     a row that a broker has refused for good, because of the row itself; a batch is taken apart for it
    bad row         a row with a fault, or a refused row: what `onBadRow` decides about
    set aside       dropped, or sent as a dead letter, as `onBadRow` says; such a row is no failure of the task
    `Unsendable`    within a task: it must fail, because of a bad row that is not set aside, or because of the cluster
    `BadRow`        what Spark gets of such a bad row; `WriteError`, of which it is a kind, what it gets of the cluster
"""
