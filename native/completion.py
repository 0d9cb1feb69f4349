"""The completion of `./twins` in bash: its verbs, their options, and the names that they take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_SCRIPT = """\
# For bash: source <(./twins completion bash)
_twins() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} names='' options=--help
  case $COMP_CWORD:${{COMP_WORDS[1]}} in
    1:*) names='{verbs}' ;;
{cases}
  esac
  case $word in -*) names=$options ;; esac
  mapfile -t COMPREPLY < <(compgen -W "$names" -- "$word")
}}
# Without a match, bash completes names of files.
complete -o bashdefault -o default -F _twins twins
"""


def options(usage: str) -> list[str]:
    """Return the long options in a command's usage message."""
    return sorted({"--help", *re.findall(r"--[a-z][a-z-]*", usage)})


def bash(words: Mapping[str, tuple[Iterable[str], Iterable[str]]]) -> str:
    """Return a script for bash that completes command lines of `./twins`.

    *words*: for each verb, the names that can follow it, and its options.
    """
    cases = [
        f"    *:{verb}) names='{' '.join(names)}' options='{' '.join(flags)}' ;;"
        for verb, (names, flags) in words.items()
    ]
    return _SCRIPT.format(verbs=" ".join(words), cases="\n".join(cases))
