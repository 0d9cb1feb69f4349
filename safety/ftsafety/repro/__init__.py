"""Reproducers: a script run many times with the GIL, with the GIL forced on and without it, and a verdict.

The way of a script:

    arguments -> inputs (files, modules, notebooks, archives) -> script
              -> campaign (rounds over the configurations) -> request (one run, a record that can travel)
                   -> twins (an interpreter here, or a server in another container)
                        -> run -> watch (one process tree under limits) -> runner (the script as __main__)
                             <- classify <- outcome (ok, wrong result, exception, signal, hang, GIL enabled, limit)
              -> verdict (what may be said of these outcomes) -> report (Markdown)

Importing this package is free: it imports nothing.
"""
