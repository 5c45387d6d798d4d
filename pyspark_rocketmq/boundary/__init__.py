"""Stand where Spark and the library meet: short errors, visible log lines, and checks of what Spark runs on.

arrival         pickles objects so that a worker without the package says so
calls           decorators of the methods that Spark calls: an error becomes one line, log lines name their place
lines           shows log lines on stderr of Spark's Python processes, which have no log handler of their own
releases        compares the release of PySpark with what the library needs
worker_python   compares the Python that Spark starts with the one of the user's program
"""
