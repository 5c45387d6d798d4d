"""How does a group member or producer behave over hours, without Spark?

    consumer, lite, producer    the faces: start here        dead_letters   what a group gave up on, read and sent again

    settings    what a member is asked to be                 results        what a listener may answer
    running     what all faces have in common                pull_request   what a pull says
    message     a received message, decoded when asked       clock, loop    time, and the threads that keep it
    membership  how brokers learn of us, who else is there   company        whether the others want the same
    rebalance   which queues are ours now                    corrections    positions that others move
    assignment  the table of queues that are ours            starting       where a new queue begins
    stores      where we stand: at brokers, or in a file     pull_service   one pull in flight for each queue
    concurrent, orderly                                      how pulled messages reach the listener
    retry       what becomes of failed messages              locks          who may consume a queue in order
    requests, running_info                                   what brokers and administrators ask of us
    pull_connections, reach                                  what a broker that cannot be reached holds up: itself alone

Threads: one *timer* loop (rounds of rebalancing, commits, everything that is due some time); one *pulse* loop
(heartbeats, which must not wait for that); one *pull* loop (a queue's first pull, and every other that must wait for
something); one for each address that pulls are connecting to; the readers of the shared connections, which take each
pull's answer and ask on; and the workers that run the listener. The table of queues is changed by the timer loop alone.
"""
