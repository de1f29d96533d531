#!/usr/bin/env python3
"""Makes the API reference of the public headers with Doxygen, as HTML with a search that works offline.

    api_reference.py FOLDER [INCLUDE_FOLDER]

FOLDER/html/index.html is where it begins. Ends with 1 if Doxygen warns, or a public name has no documentation: each is printed
with its file and line. Deleted and defaulted functions, and destructors, need none."""
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMPOUNDS = ("class", "struct", "union", "concept", "namespace")


def text(element):
    return "" if element is None else "".join(element.itertext()).strip()


def is_documented(element):
    return bool(text(element.find("briefdescription")) or text(element.find("detaileddescription")))


def is_public(compound):
    name = text(compound.find("compoundname"))
    return (
        compound.get("kind") in COMPOUNDS
        and compound.get("prot", "public") != "private"
        and "detail" not in name.split("::")
        and (compound.get("kind") != "namespace" or compound.find(".//memberdef") is not None)
    )


def names_of(compound):
    """(place, name, whether it is documented) of a compound, its members and their enumerators."""

    def place(element):
        where = element.find("location")
        return f"{where.get('file')}:{where.get('line')}"

    own = text(compound.find("compoundname"))
    yield place(compound), own, is_documented(compound)
    for member in compound.iter("memberdef"):
        arguments = text(member.find("argsstring"))
        name = text(member.find("name"))
        if member.get("prot") == "private" or name.startswith("~") or re.search(r"=\s*(delete|default)$", arguments):
            continue
        yield place(member), f"{own}::{name}{arguments}", is_documented(member)
        for value in member.iter("enumvalue"):
            yield place(member), f"{own}::{name}::{text(value.find('name'))}", is_documented(value)


def make(folder, include=None):
    """Doxygen's warnings, the number of public names, and the (place, name) of those without documentation."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    version = re.search(r"^project\(brim VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    settings = (ROOT / "docs/api/Doxyfile").read_text()
    settings += f'\nOUTPUT_DIRECTORY = "{folder}"\nPROJECT_NUMBER = {version}\n'
    if include:
        settings += f'INPUT = "{include}"\nSTRIP_FROM_PATH = "{include}"\n'
    run = subprocess.run(["doxygen", "-"], input=settings, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    warnings = run.stderr.splitlines()
    if run.returncode != 0:
        warnings.append(f"doxygen ended with {run.returncode}")
    names = [
        name
        for file in sorted((folder / "xml").glob("*.xml"))
        for compound in ElementTree.parse(file).getroot().iter("compounddef")
        if is_public(compound)
        for name in names_of(compound)
    ]
    shutil.rmtree(folder / "xml", ignore_errors=True)
    return warnings, len(names), sorted((place, name) for place, name, documented in names if not documented)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if not shutil.which("doxygen"):
        sys.exit("api_reference: error: there is no doxygen; `tools/setup.sh docs` installs it")
    warnings, count, missing = make(pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:])
    for line in warnings:
        print(line)
    for place, name in missing:
        print(f"{place}: {name} has no documentation")
    print(f"{count} public names, {len(missing)} without documentation, {len(warnings)} warnings of Doxygen")
    sys.exit(1 if warnings or missing or not count else 0)


if __name__ == "__main__":
    main()
