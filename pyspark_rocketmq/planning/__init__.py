"""Given positions, limits and slots: which ranges run next, and why these?

*admission* says how far each queue is read in this batch, *slots* deals the queues with data to task slots by an
allocation strategy, *ranges* cuts the slots into tasks. Everything is a pure function: equal inputs, equal plans.
"""
