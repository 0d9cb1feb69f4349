"""Reproducer of threading bugs: runs a script many times with and without the GIL, and reports in
which cases it fails.

The modules, in the order in which they handle a script:

    arguments -> inputs (files, modules, notebooks, archives) -> script
    -> campaign (rounds over the configurations)
        -> request (one run, which can be sent to a server)
        -> twins (an interpreter here, or a server in another container)
            -> run -> watch (one process tree under limits)
                -> runner (the script as __main__; exceptions)
            <- classify
        <- outcome (ok, wrong result, exception, signal, hang, GIL enabled, limit)
    -> verdict (statistics of the outcomes) -> report (Markdown)

Importing this package imports nothing else.
"""
