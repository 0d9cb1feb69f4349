"""Environment variables of Python that would change what the tools say."""

CLEARED = (
    # Other folders of the standard library, and scripts that do not find what lies beside them.
    *("PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONSAFEPATH", "PYTHON_FROZEN_MODULES"),
    # No assertions, or other rules.
    *(
        "PYTHONOPTIMIZE",
        "PYTHONDEVMODE",
        "PYTHON_CONTEXT_AWARE_WARNINGS",
        "PYTHON_THREAD_INHERIT_CONTEXT",
    ),
    # Warnings that are hidden, of which one says that an import turns the GIL on,
    # or warnings that are errors.
    *("PYTHONWARNINGS", "PYTHONWARNDEFAULTENCODING"),
    # Output that is mixed with that of a program.
    *(
        "PYTHONVERBOSE",
        "PYTHONDEBUG",
        "PYTHONPROFILEIMPORTTIME",
        "PYTHONMALLOCSTATS",
        "PYTHONINSPECT",
        "PYTHON_COLORS",
    ),
    # Time, memory and the number of workers.
    *(
        "PYTHONMALLOC",
        "PYTHONTRACEMALLOC",
        "PYTHONASYNCIODEBUG",
        "PYTHONPERFSUPPORT",
        "PYTHON_PERF_JIT_SUPPORT",
    ),
    *("PYTHON_CPU_COUNT", "PYTHON_JIT", "PYTHON_TLBC"),
)
"""Variables that no program of ours gets. `./twins exec` passes on all but PYTHONHOME: its command
is the user's.
"""
