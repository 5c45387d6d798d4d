"""Translate the options of a job from another connector to those of `format("rocketmq")`.

rules      how one option is translated       kafka, rocketmq_spark, rocketmq_flink   the tables of rules
convert    values that are written otherwise there
given      the options of one read or write
reading    options in arguments, files and SQL; programs: those in the text of programs
translate  applies a table to the options of a job, and tells about each of them
page       the guide page about these tables
"""
