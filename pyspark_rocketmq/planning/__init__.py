"""Choose the ranges that run next, given positions, limits and task slots.

`admission` decides how far each queue is read in this batch. `ranges` deals the queues with data to task slots by an
allocation strategy, and cuts the slots into tasks. Everything is a pure function: equal inputs, equal plans.
"""
