#!/usr/bin/env python3
"""The status page of a real verifier under load, in a headless Chromium.

Without one (Debian: chromium-headless-shell, 100 MB to fetch) the test is skipped.

  status_test.py SOURCE_DIR BINARY_DIR
"""

import http.server
import json
import pathlib
import re
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import browser
from processes import SKIPPED, TIME_LIMIT, Processes, small_pair

# A drafter's name is what its owner likes.
NAME = ("<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
        "</td></table>&amp;\u202e")


def fetch(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIME_LIMIT) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, ""


def await_status(port, what, condition):
    until = time.monotonic() + TIME_LIMIT
    while True:
        status = json.loads(fetch(port, "/status.json")[2])
        if "history" in status and condition(status):
            return status
        if time.monotonic() > until:
            raise SystemExit(f"not within {TIME_LIMIT} s: {what}: {json.dumps(status)[:2000]}")
        time.sleep(0.2)


def check_headers(port):
    code, headers, page = fetch(port, "/status")
    assert code == 200 and headers["Content-Type"] == "text/html; charset=utf-8", headers
    policy = headers["Content-Security-Policy"]
    for part in ("default-src 'none'", "script-src 'sha256-", "style-src 'sha256-",
                 "connect-src 'self'", "frame-ancestors 'none'",
                 "require-trusted-types-for 'script'"):
        assert part in policy, (part, policy)
    assert "unsafe" not in policy, policy
    assert headers["X-Content-Type-Options"] == "nosniff", headers
    assert headers["Cache-Control"] == "no-store", headers
    # Nothing from elsewhere: the only address in the file is that of SVG's names.
    links = re.findall(r"(?:https?:)?//[a-z][^\s\"']*", page)
    assert links == ["http://www.w3.org/2000/svg"], "outside assets"
    for path in ("/status/", "/status/x", "/status.jsonx", "/statu"):
        assert fetch(port, path)[0] == 404, path


def numbers_in(text):
    return [float(n.replace(",", "")) for n in re.findall(r"[\d,]+(?:\.\d+)?", text)]


def check_without_drafters(folder, port, grpc):
    page, console = browser.dump(folder, f"http://127.0.0.1:{port}/status")
    assert not console, console
    assert page.text["state"] == "serving", page.text["state"]
    assert "alarm" in page.hidden, page.text["alarm"]
    assert "No drafter is attached" in page.text["drafters"], page.text["drafters"]
    assert f"--verifier 127.0.0.1:{grpc}" in page.text["drafters"], page.text["drafters"]
    assert "start" not in page.hidden, "nothing says what to do first"
    start = page.text["start"]
    assert f"outrider generate --verifier 127.0.0.1:{grpc}" in start, start
    assert page.text["sessions"] == "0 running", page.text["sessions"]
    for target in ("metrics", "status.json"):
        assert target in page.links, page.links
        assert fetch(port, "/" + target)[0] == 200, target
    assert page.text["model"] == "target", page.text["model"]


def check_under_load(folder, port):
    page, console = browser.dump(folder, f"http://127.0.0.1:{port}/status")
    assert not console, console
    text = page.text
    assert text["state"] == "serving" and "alarm" in page.hidden, (text["state"], text["alarm"])
    # The name is there as it is, and made nothing.
    assert NAME in text["drafters"], text["drafters"]
    assert page.elements["script"] == 1 and "img" not in page.elements, page.elements
    assert not page.handlers, page.handlers
    assert "owned" not in text["title"], text["title"]
    assert "drafting" in text["drafters"] or "ready" in text["drafters"], text["drafters"]

    assert numbers_in(text["sessions"])[0] > 0, text["sessions"]
    assert "2 clients" in text["sessions-note"], text["sessions-note"]
    assert numbers_in(text["speed"])[0] > 0, text["speed"]
    assert numbers_in(text["acceptance"])[0] > 0, text["acceptance"]
    assert numbers_in(text["kv"])[0] > 0, text["kv"]
    assert numbers_in(text["batch"])[0] > 0, text["batch"]
    assert "plain" in text["arms"] or "draft-" in text["arms"], text["arms"]
    assert re.fullmatch(r"× \d+\.\d\d|about 1", text["gain"]), (text["gain"], text["gain-note"])
    assert re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d over plain decoding",
                        text["gain-note"]), text["gain-note"]
    assert "decode" in text["oldest"], text["oldest"]
    assert "start" in page.hidden, "requests have come"
    assert re.fullmatch(r"[\d.,]+ ms", text["first"]), text["first"]
    assert "ms between tokens" in text["first-note"], text["first-note"]
    assert re.search(r"\d failed or cancelled · \d+ refused · \d+ finished",
                     text["failed-note"]), text["failed-note"]
    for plot in ("speed-plot", "position-plot", "arm-plot", "session-plot", "first-plot",
                 "next-plot", "request-plot"):
        assert text[plot], f"{plot} is empty"


def check_that_nothing_private_is_there(port, prompts):
    body = fetch(port, "/status.json")[2]
    for private in ["alice", "secret-a", *(prompt[:12] for prompt in prompts)]:
        assert private not in body, f"{private}: clients and texts are nobody's business"


class StandIn(http.server.BaseHTTPRequestHandler):
    """Has the verifier's page, with a script of the test's after it, and numbers that do not
    change, or none."""

    page, script, status = "", "", None

    def do_GET(self):
        if self.path == "/status":
            body, kind = self.page.replace("</body>",
                                           f"<script>{self.script}</script></body>"), "text/html"
        elif self.status is not None:
            body, kind = json.dumps(self.status), "application/json"
        else:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Type", kind + "; charset=utf-8")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def show(folder, page, *flags, status=None, script=""):
    """The page as a browser shows it, from a stand-in for the verifier."""
    handler = type("Handler", (StandIn,), {"page": page, "script": script, "status": status})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shown, console = browser.dump(folder, f"http://127.0.0.1:{server.server_address[1]}/status",
                                      *flags)
        server.shutdown()
    return shown, console


def check_unreachable(folder, page):
    shown, _ = show(folder, page)
    assert "alarm" not in shown.hidden, "the alarm is hidden"
    assert "cannot be reached" in shown.text["alarm"], shown.text["alarm"]
    assert "stale" in shown.classes["board"], shown.classes["board"]


# Once the page is drawn: points at the middle of the chart of speed, shows the last hour, and
# measures.
MEASURE = """
setTimeout(() => {
  const note = (id, text) => {
    const p = document.createElement("p");
    p.id = id;
    p.textContent = text;
    document.body.append(p);
  };
  const point = (id, share) => {
    const plot = document.getElementById(id), box = plot.getBoundingClientRect();
    plot.dispatchEvent(new PointerEvent("pointermove", {
      clientX: box.left + share * box.width, clientY: box.top + 9, bubbles: true}));
    const tip = document.getElementById("tip");
    return tip.hidden ? "hidden" : tip.textContent;
  };
  note("tip-speed", point("speed-plot", 0.99));
  note("tip-position", point("position-plot", 0.2));
  document.getElementById("position-plot").dispatchEvent(new PointerEvent("pointerleave"));
  note("tip-left", String(document.getElementById("tip").hidden));
  document.getElementById("span-hour").click();
  note("hour", document.getElementById("speed-plot").textContent);
  note("tip-hour", point("speed-plot", 0.99));
  const names = [...document.querySelectorAll("td.name, h1 span")]
    .filter((node) => node.textContent);
  note("lines", names.map((node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size;
  }).join(" "));
  const whole = [...document.querySelectorAll("td.name")]
    .every((node) => node.title === node.textContent);
  note("titles", whole ? "whole" : "cut");
  note("width", `${document.documentElement.scrollWidth} of ${innerWidth}`);
}, 2000);
"""


def check_details(folder, page, status):
    """Values under the pointer, the last hour, and a narrow window, with names longer than that."""
    status = json.loads(json.dumps(status))
    long = "meta-llama/Llama-3.3-70B-Instruct-" + "x" * 60
    status["model"] = long
    status["drafters"] = [{**status["drafters"][0], "name": long, "model": long}]
    last = {**status["history"][-1], "tokens_per_second": 123, "plain_tokens_per_second": 61.5,
            "seconds": 1}
    status["history"] = [*status["history"][:-1], last]
    status["hour"] = [{**last, "seconds": 30, "tokens_per_second": 321}] * 120
    status["accepted_by_position"] = [0.75, 0.5, 0.25, 0.125]
    shown, console = show(folder, page, "--window-size=400,900", status=status, script=MEASURE)
    assert not console, console
    text = shown.text
    assert text["tip-speed"] == "nowtokens a second: 123without drafts: ≈ 61.5", text["tip-speed"]
    assert "accepted: 75 %" in text["tip-position"], text["tip-position"]
    assert text["tip-left"] == "true", "the values stay when the pointer has left"
    assert "1 h ago" in text["hour"] and "2 min ago" not in text["hour"], text["hour"]
    assert "tokens a second: 321" in text["tip-hour"], text["tip-hour"]
    assert set(text["lines"].split()) == {"1"}, f"lines of the names: {text['lines']}"
    assert text["titles"] == "whole", "a name that is cut has no title"
    wide, window = (int(n) for n in text["width"].split(" of "))
    assert window <= 500 and wide <= window, f"the page is wider than its window: {text['width']}"


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if browser.program() is None:
        print(f"skipped: none of {', '.join(browser.PROGRAMS)} is installed")
        sys.exit(SKIPPED)
    models, prompts = small_pair(binaries), source / "tests/bench/prompts.jsonl"
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        tokens = {name: pathlib.Path(folder) / name for name in ("clients", "alice", "bob")}
        tokens["clients"].write_text("alice secret-a\nbob secret-b\n")
        tokens["alice"].write_text("secret-a\n")
        tokens["bob"].write_text("secret-b\n")
        verifier = processes.start(
            "verifier",
            [binaries / "outrider-verifier", "--model", models / "target", "--listen",
             "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--client-tokens", tokens["clients"]],
            await_line=" serving ",
        )
        port = int(re.search(r"metrics_port=(\d+)", verifier.line).group(1))
        address = "127.0.0.1:" + re.search(r" port=(\d+)", verifier.line).group(1)
        check_headers(port)
        await_status(port, "two looks", lambda s: len(s["history"]) >= 1)
        check_without_drafters(folder, port, int(address.rsplit(":", 1)[1]))

        processes.start("drafter", [binaries / "outrider-drafter", "--model", models / "drafter",
                                    "--verifier", address, "--metrics", "", "--name", NAME],
                        await_line=" attached ")
        bench = [binaries / "outrider", "bench", "--verifier", address, "--prompts", prompts,
                 "--max-tokens", "200", "--requests", "100000", "--concurrency", "2",
                 "--ignore-eos"]
        # As the controller chooses, and with drafts all the time.
        processes.start("load-a", [*bench, "--token-file", tokens["alice"]])
        processes.start("load-b", [*bench, "--token-file", tokens["bob"], "--draft-length", "4"])
        await_status(port, "load with drafts and a speedup", lambda s: (
            s["sessions"]["running"] > 1 and s["sessions"]["clients"] == 2
            and s["window"]["drafted_rounds"] > 50
            and s["window"]["speedup"] > 0 and s["accepted_by_position"]))
        check_under_load(folder, port)
        check_that_nothing_private_is_there(
            port, [json.loads(line)["prompt"] for line in prompts.read_text().splitlines()])
        page = fetch(port, "/status")[2]
        check_unreachable(folder, page)
        check_details(folder, page, json.loads(fetch(port, "/status.json")[2]))
    print("the page shows what the verifier does")


if __name__ == "__main__":
    main()
