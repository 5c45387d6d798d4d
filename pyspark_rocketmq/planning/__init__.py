"""Choose the ranges that run next, given positions, limits and slots.

`admission` decides the offset at which each queue's range ends in this batch. `ranges` assigns the queues with data to
slots by an allocation strategy, and cuts the slots into tasks. All functions are pure: equal inputs give equal plans.
"""
