"""Show and change a RocketMQ cluster from a terminal, without Spark, Java or a server.

    main          runs one command; errors, Ctrl-C and a closed output become exit codes
    table         every command by name, with its summary and its module in `commands`
    command       describes one command: parameters, examples, result, views
    parser        turns the words of the command line into a command and its values (click)
    connection    finds the cluster: flags, environment, profile; profiles: the file of profiles
    session       gives a running command its cluster and its terminal
    diagnosis     finds out what stands at an address; checks: the checks of `doctor`
    positions, messages   positions and messages, as several commands take, read and show them
    translation   options of other connectors, and what takes their place
    demo          the parts of the command of this name
    drafts        messages to be sent, from words, files and lines of JSON
    state_files   the folder of undo and audit files      java   the Java that Spark would start
    program       the name of the program                 installation   what is installed beside this package
    values        the values that results have in common, such as moments
    documents     writes results as JSON, and derives their JSON Schemas from their classes
    views         tables and facts, by which a command shows its result to people
    screen        draws views (rich), and writes documents, warnings and errors; waiting: tells what a command waits for
    exits         exit codes      page   the guide page      commands   one module for each command

A command returns one value, or yields several as they come. People see its views; `--json` prints the value itself.
Modules of commands import what they need when they run, so that help and completion are quick.
"""
