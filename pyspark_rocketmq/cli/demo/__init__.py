"""Provide the parts of the command `demo`.

    job       the Spark job, which runs in a process of its own       process   starts and ends that process
    orders    sends orders at an even pace                           state     figures of the demo, and their views
    depths    what brokers hold of the demo's topics

Spark's process has a session of its own, so that Ctrl-C reaches the command alone: it then ends all of Spark's
processes, and what these write never gets between the lines of the demo.
"""
