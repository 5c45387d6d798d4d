"""Where does a reader stand in each queue, and how is that written down?

From a *wish* (what the user asked for) `resolve` makes *positions* (an offset per queue), asking the cluster through a
typed protocol; `position` writes them as versioned JSON; `loss` compares them with what brokers still hold.
"""
