#!/usr/bin/env python3
"""What Doxygen reads of a header: the same, line by line, in the form that it understands.

All names of `int64_t first = 0, last = 0;  ///< launches` have that comment, where Doxygen would give it to one of them. Code
in comments, which stands two columns to the right there, becomes a code block of Markdown."""
import re
import sys

NAME = r"[&*]?\w+(?: = [^,;()]*|\{[^,;()]*\})?"
DECLARATION = re.compile(
    r"^(?P<indent> *)(?P<type>(?:(?:const|static|constexpr|inline) )*[\w:]+(?:<[^;=]*?>)?(?=[ &*])) ?"
    rf"(?P<names>{NAME}(?:, ?{NAME})+);(?: +///< (?P<comment>.*))?$"
)
CODE = re.compile(r"^( *///)   ")


def comment_behind(lines):
    """What goes on below a comment that stands behind a declaration."""
    for line in lines:
        found = re.match(r"^ +///< (.*)$", line)
        if not found:
            return
        yield found[1]


def filtered(lines):
    above = []
    for n, line in enumerate(lines):
        found = DECLARATION.match(line)
        if found and found["type"].split()[-1] not in ("return", "using", "goto", "delete"):
            comment = " ".join([found["comment"], *comment_behind(lines[n + 1 :])] if found["comment"] else above)
            if comment:
                first, *others = (f"{found['type']} {name};" for name in re.split(r", ?", found["names"]))
                documented = [f"/** {comment} */ {other}" for other in others]
                if found["comment"]:
                    first = f"/** {comment} */ {first}"
                line = found["indent"] + " ".join([first, *documented])
        found = re.match(r"^ *///(?: (.*))?$", line)
        above = above + [found[1] or ""] if found else []
        yield CODE.sub(r"\1     ", line)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        sys.stdout.write("\n".join(filtered(file.read().split("\n"))))
