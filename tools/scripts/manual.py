#!/usr/bin/env python3
"""manual.py - manual pages and completions, made from what the programs say of themselves: `graphtool --table` (its table of
options as JSON) and `weft-zoo --help`.

    manual.py GRAPHTOOL WEFT_ZOO FOLDER

Writes man1/graphtool.1, man1/graphtool-COMMAND.1, man1/weft-zoo.1, graphtool.bash and _graphtool (zsh) to FOLDER.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

STATUS = "0 success, 1 failure, 2 wrong usage, 7 when another rank is missing, dead or differs, 8 when a training met a bad step, NaN or infinity; 130 when Ctrl-C ended a training run, whose weights are saved."


# ---- manual pages ----


def roff(text):
    """A text as roff takes it: no line begins a request, a hyphen stays one."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def page(name, summary, sections, version):
    head = f'.TH {roff(name).upper()} 1 "" "Weft {version}" "Weft"\n.SH NAME\n{roff(name)} \\- {roff(summary)}\n'
    return head + "".join(f".SH {title}\n{body}" for title, body in sections if body)


def option_roff(option):
    long = f"\\fB\\-\\-{roff(option['name'])}\\fR"
    if option["argument"]:
        long += f"=\\fI{roff(option['argument'])}\\fR"
    short = f"\\fB\\-{option['letter']}\\fR, " if option["letter"] else ""
    return f".TP\n{short}{long}\n{roff(option['help'])}\n"


def action_roff(action):
    return f".TP\n\\fB{roff(action['name'])}\\fR \\fI{roff(action['arguments'])}\\fR\n{roff(action['summary'])}\n"


def example_roff(text):
    return f".nf\n{roff(text)}\n.fi\n"


def command_page(command, version):
    name = f"graphtool-{command['name']}"
    arguments = f".I {roff(command['arguments'])}\n" if command["arguments"] else ""
    parts = (arguments, "[\\fIOPTION\\fR]...\n")
    parts = parts[::-1] if command["arguments"].startswith("COMMAND") else parts  # what follows a command is its own
    synopsis = f".B graphtool {command['name']}\n" + "".join(parts)
    details = f"{roff(command['summary'])}.\n" + (f".PP\n{roff(command['details'])}\n" if command["details"] else "")
    return page(name, first_lower(command["summary"]), [
        ("SYNOPSIS", synopsis), ("DESCRIPTION", details), ("ACTIONS", "".join(map(action_roff, command["actions"]))),
        ("OPTIONS", "".join(map(option_roff, command["options"]))), ("EXIT STATUS", roff(STATUS) + "\n"),
        ("EXAMPLE", example_roff(command["example"])), ("SEE ALSO", ".BR graphtool (1)\n"),
    ], version)


def main_page(table):
    rows = "".join(f".TP\n.BR graphtool\\-{c['name']} (1)\n{roff(c['summary'])}\n" for c in table["commands"])
    return page("graphtool", "inspects, draws, compiles, trains and runs models of static op graphs", [
        ("SYNOPSIS", ".B graphtool\n\\fICOMMAND\\fR [\\fIMODEL\\fR] [\\fIOPTION\\fR]...\n"), ("COMMANDS", rows),
        ("EXIT STATUS", roff(STATUS) + "\n"), ("SEE ALSO", ".BR weft\\-zoo (1)\n"),
    ], table["version"])


def zoo_page(told, version):
    usage, summary, rest = told.split("\n", 2)
    options, example = rest.split("Example: ")
    return page("weft-zoo", first_lower(summary.rstrip(".")), [
        ("SYNOPSIS", f".B {roff(usage.removeprefix('Usage: '))}\n"),
        ("OPTIONS", f".nf\n{roff(options.strip(chr(10)))}\n.fi\n"), ("EXAMPLE", example_roff(example.strip())),
        ("SEE ALSO", ".BR graphtool (1)\n"),
    ], version)


def first_lower(text):
    return text[0].lower() + text[1:]


# ---- bash ----

BASH = """# Completion of graphtool for bash: commands, options, the words that an option takes, files. Made by manual.py.
_graphtool() {
    local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} options= words= n=$COMP_CWORD
    # "--isa=av" is three words to bash
    if [[ $word == = ]]; then word=
    elif [[ $option == = ]]; then option=${COMP_WORDS[n - 2]}; fi
    COMPREPLY=()
    if ((n == 1)); then
        COMPREPLY=($(compgen -W "@COMMANDS@ --help --version" -- "$word"))
        return
    fi
    case ${COMP_WORDS[1]} in
@OPTIONS@    esac
    case $n:${COMP_WORDS[1]} in
@ACTIONS@    esac
    case ${COMP_WORDS[1]}:$option in
@WORDS@    esac
    if [[ $words && $word != -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
        [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
    else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -F _graphtool graphtool
"""


def bash(table):
    options, words = "", ""
    for command in table["commands"]:
        names = " ".join(f"--{o['name']}" + ("=" if o["argument"] else "") for o in command["options"])
        options += f"    {command['name']}) options='{names}' ;;\n"
        for option in command["options"]:
            if option["words"]:
                cases = f"{command['name']}:--{option['name']}"
                cases += f" | {command['name']}:-{option['letter']}" if option["letter"] else ""
                words += f"    {cases}) words='{' '.join(option['words'])}' ;;\n"
    actions = "".join(f"    2:{c['name']}) words='{' '.join(a['name'] for a in c['actions'])}' ;;\n" for c in table["commands"] if c["actions"])
    text = BASH.replace("@ACTIONS@", actions).replace("@COMMANDS@", " ".join(c["name"] for c in table["commands"]))
    return text.replace("@OPTIONS@", options).replace("@WORDS@", words)


# ---- zsh ----


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def quoted(text):
    return '"' + text.replace('"', '\\"') + '"'


def zsh_option(option):
    name, letter = f"--{option['name']}", f"-{option['letter']}" if option["letter"] else ""
    value = ""
    if option["argument"]:
        action = f"({' '.join(option['words'])})" if option["words"] else "_files" if "FILE" in option["argument"] else ""
        value = f":{zsh_text(option['argument'])}:{action}"
        name += "="
    told = f"[{zsh_text(option['help'])}]{value}"
    repeats = "*" if "=" in option["argument"] or ":" in option["argument"] else ""
    specs = [f"'{repeats}{name}{told}'"] + ([f"'{repeats}{letter}{'+' if option['argument'] else ''}{told}'"] if letter else [])
    return "".join(f" \\\n            {spec}" for spec in specs)


def zsh(table):
    commands = "".join(f"    '{c['name']}:{zsh_text(c['summary'])}'\n" for c in table["commands"])
    cases = ""
    for c in table["commands"]:
        models = {"MODEL": ["1:"], "MODEL [MODEL]": ["1:", "2::"]}.get(c["arguments"], [])
        model = "".join(f" \\\n            '{place}model:_files'" for place in models)
        if c["actions"]:
            told = " ".join(f"{a['name']}\\:{quoted(zsh_text(a['summary']))}" for a in c["actions"])
            model = f" \\\n            '1:action:(({told}))' \\\n            '*:folder:_files -/'"
        cases += f"    {c['name']})\n        _arguments{model}{''.join(map(zsh_option, c['options']))}\n        ;;\n"
    return ("#compdef graphtool\n# Completion of graphtool for zsh. Made by manual.py.\n"
            f"local -a commands=(\n{commands})\n"
            "if ((CURRENT == 2)); then\n    _describe command commands\n    return\nfi\n"
            "shift words\n((CURRENT--))\ncase $words[1] in\n" + cases + "esac\n")


def main():
    graphtool, zoo, folder = sys.argv[1], sys.argv[2], Path(sys.argv[-1])
    table = json.loads(subprocess.run([graphtool, "--table"], capture_output=True, text=True, check=True).stdout)
    told = subprocess.run([zoo, "--help"], capture_output=True, text=True, check=True).stdout
    (folder / "man1").mkdir(parents=True, exist_ok=True)
    pages = {f"graphtool-{c['name']}": command_page(c, table["version"]) for c in table["commands"]}
    pages |= {"graphtool": main_page(table), "weft-zoo": zoo_page(told, table["version"])}
    for name, text in pages.items():
        (folder / "man1" / f"{name}.1").write_text(text)
    (folder / "graphtool.bash").write_text(bash(table))
    (folder / "_graphtool").write_text(zsh(table))


main()
