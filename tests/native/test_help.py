"""The help of each verb of ./twins has an example that works as it is pasted, and bash completes
the verbs and their options.
"""

import re
import shlex
import subprocess

import pytest

from native import cli
from tests.checkout import CHECKOUT


def printed(arguments, capsys):
    """What ./twins prints before it ends without running a verb: its help."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 0
    return capsys.readouterr().out


def examples(verb, text):
    """The command lines that begin with ./twins VERB, without what is said of them beside."""
    lines = re.findall(rf"^ +(?:source <\()?\./twins ({verb}\b.*?)(?:  .*|\))?$", text, re.M)
    return [shlex.split(line) for line in lines]


def accepted(arguments):
    """True if ./twins would start the verb, as far as its arguments say."""
    try:
        _, rest = cli._parsed(arguments)
        if arguments[0] in cli.ARGUMENTS:
            cli._check(arguments[0], rest)
    except SystemExit:
        return False
    return True


@pytest.mark.parametrize("verb", cli.VERBS)
def test_the_first_example_of_the_help_works(verb, capsys, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    monkeypatch.setattr("sys.path", [*cli.sys.path])
    first, *_ = examples(verb, printed([verb, "--help"], capsys))
    assert accepted(first)
    files = [word.partition(":")[0] for word in first if re.search(r"\.(py|in)\b", word)]
    assert all((CHECKOUT / name).is_file() for name in files)


def test_examples_are_found_and_judged(capsys):
    text = "  ./twins bench --quick      a first run\n  source <(./twins completion bash)\n"
    assert examples("bench", text) == [["bench", "--quick"]]
    assert examples("completion", text) == [["completion", "bash"]]
    assert not accepted(["completion", "fish"]) and not accepted(["audit", "gone.py:data"])


TYPED = {
    "be": "bench",
    "clean --": "--help --yes",
    "exec ": "ft gil",
    "bench tex": "text",
    "bench --rep": "",
    "repro --shr": "--shrink-threads",
    "audit --pat": "--patience",
}


def test_bash_completes_verbs_options_and_names(capsys):
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    for typed in TYPED:
        words = ["./twins", *typed.split(" ")]
        script += f"COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}\n"
        script += '_twins; echo "${COMPREPLY[*]}"\n'
    done = subprocess.run(
        ["bash", "--noprofile", "--norc"], input=script, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == list(TYPED.values()) and not done.stderr
