"""A headless Chromium for the status page: what it shows, as a tree that can be asked, and
pictures of it."""

import html.parser
import shutil
import subprocess

from processes import TIME_LIMIT

PROGRAMS = ("chromium-headless-shell", "chromium")
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


def program():
    """The browser's path, or None."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


def run(folder, url, *flags, seconds=4):
    """Opens the page for so many seconds of its own time. What the browser printed: output, and its
    console."""
    command = [program(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--no-first-run", "--enable-logging=stderr", f"--user-data-dir={folder}/browser",
               f"--virtual-time-budget={seconds * 1000}", *flags, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


class Page(html.parser.HTMLParser):
    """The document that the scripts made: text by id, and how many elements there are of a kind."""

    def __init__(self, dom):
        super().__init__()
        self.text = {}
        self.classes = {}
        self.hidden = set()
        self.elements = {}
        self.handlers = []
        self.links = []
        self.open = []
        self.feed(dom)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements[tag] = self.elements.get(tag, 0) + 1
        self.handlers += [name for name in attrs if name.startswith("on")]
        if tag == "a":
            self.links.append(attrs.get("href"))
        name = attrs.get("id") or ("title" if tag == "title" else None)
        if name:
            self.text[name] = ""
            self.classes[name] = (attrs.get("class") or "").split()
            if "hidden" in attrs:
                self.hidden.add(name)
        if tag not in VOID:
            self.open.append((tag, name))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.text[name] += data


def dump(folder, url, *flags):
    dom, console = run(folder, url, "--dump-dom", *flags)
    return Page(dom), console
