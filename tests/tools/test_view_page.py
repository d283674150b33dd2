#!/usr/bin/env python3
"""test_view_page.py - the page of `graphtool view` in a headless Chromium: what a user does, and what the page then says.
Plans by hand (view_data.py) have known answers; models of the zoo go through graphtool, and are held against what
`graphtool plan --json` says. No page may complain, or ask for anything but itself.

    test_view_page.py BUILD [NAME...]        NAME: of a case
"""
import json
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import view_data as known
from chromium import Chromium, find_chromium

build = Path(sys.argv[1]).resolve()
template = (build / "generated/view_page.html").read_text()
folder = Path(tempfile.mkdtemp(prefix="weft-view-"))
failures = []
case = ""
b = None  # the browser


def check(is_so, what):
    if not is_so:
        failures.append(f"{case}: {what}")
        print(f"FAILED: {case}: {what}", flush=True)


def same(got, want, what):
    check(got == want, f"{what}: {got!r}, not {want!r}")


# ---- what the page says ----


def show(data, address="", **how):
    """Opens a page with these data."""
    path = folder / f"{case}.html"
    known.write_page(template, data, path)
    b.open(f"file://{path}{address}", **how)


def labels():
    """{label: number} of the boxes that are drawn."""
    return dict(b.run("[...document.querySelectorAll('[data-box]')].map(e => [e.getAttribute('aria-label'), Number(e.dataset.box)])"))


def lit():
    """Labels of the boxes that are selected."""
    return sorted(b.run("[...document.querySelectorAll('[data-box].lit')].map(e => e.getAttribute('aria-label'))"))


def shown():
    """The selection, as the details have it."""
    return b.run("document.getElementById('details').dataset.shows")


def text(selector):
    return b.run(f"(document.querySelector({json.dumps(selector)}) || {{textContent: '(no such)'}}).textContent")


def details():
    return b.run("document.getElementById('details').innerText")


def table_rows(selector):
    return b.run(f"[...document.querySelectorAll({json.dumps(selector + ' tbody tr')})].map(r => [...r.cells].map(c => c.textContent))")


def box(label):
    """A selector of the box with this label."""
    numbers = labels()
    check(label in numbers, f"no box '{label}' in {sorted(numbers)}")
    return f"[data-box='{numbers.get(label)}']"


def click_box(label, count=1):
    """At the upper left: a frame's middle is what it holds."""
    b.place(box(label))
    at = b.run(f"(() => {{ const r = document.querySelector({json.dumps(box(label))}).getBoundingClientRect(); return [r.left + 12, r.top + 12]; }})()")
    b.click_at(*at, count=count)


def choose(field, value):
    b.run(f"(() => {{ const s = document.getElementById('{field}'); s.value = '{value}'; s.dispatchEvent(new Event('change')); }})()")
    b.settle()


def tab(name):
    b.click(f"#tab-{name}")


def address():
    """What a link would keep, when the page has written it."""
    b.run("new Promise(done => setTimeout(done, 400))")
    return dict(part.split("=") for part in b.run("location.hash")[1:].split("&"))


# ---- the graph ----


def scopes_open_and_equal_ones_are_drawn_once():
    show(known.tiny())
    same(sorted(labels()), sorted([
        "forward, 6 nodes", "input %0, f32[8,4], forward", "scope net, forward, 4 nodes", "loss %6, f32[], forward", "backward, 3 nodes",
        "scope net, backward, 2 nodes", "constant %7, f32[], backward", "update, 4 nodes", "bucket %10, f32[8,4], update",
        "all_reduce %11, f32[8,4], update", "wait %12, f32[8,4], update", "sgd %13, f32[8,4], update"]), "boxes at first")
    b.click("[data-toggle='15']")  # 14 nodes, then scopes by phase: net, forward
    check("scope net/a, forward, 2 nodes, one of 2 equal" in labels(), "net/a stands for two")
    check("scope net/a, backward, 1 node, one of 2 equal" in labels(), "it opens in all phases")
    check(not any("net/b" in name for name in labels()), "net/b is drawn with net/a")
    check("\u00d72" in text(box("scope net/a, forward, 2 nodes, one of 2 equal")), "the box says ×2")
    same(b.run(f"document.querySelector({json.dumps(box('scope net, forward, 4 nodes'))}).getAttribute('aria-expanded')"), "true", "aria-expanded")
    click_box("scope net/a, forward, 2 nodes, one of 2 equal")
    same(shown(), "s2", "a click selects")
    b.click("[data-do='loose']")
    check("scope net/b, forward, 2 nodes" in labels() and "scope net/a, forward, 2 nodes" in labels(), "each is drawn when asked for")
    click_box("scope net/b, forward, 2 nodes", count=2)
    check("linear %3, f32[8,4], forward" in labels(), "a double click opens")
    b.click("[data-do='close-all']")
    check("scope net, forward, 4 nodes" in labels() and "linear %3, f32[8,4], forward" not in labels(), "all is closed")


def a_layer_lies_beside_its_gradient():
    show(known.tiny(), "#open=1.2.3&loose=2")
    y = b.run("Object.fromEntries([...document.querySelectorAll('[data-box]')].map(e => [e.getAttribute('aria-label'), e.getBoundingClientRect().top]))")
    x = b.run("Object.fromEntries([...document.querySelectorAll('[data-box]')].map(e => [e.getAttribute('aria-label'), e.getBoundingClientRect().left]))")
    check(y["linear %1, f32[8,4], forward"] < y["relu %2, f32[8,4], forward"] < y["linear %3, f32[8,4], forward"] < y["loss %6, f32[], forward"], "forward flows down")
    check(y["relu_backward %9, f32[8,4], backward"] < y["relu_backward %8, f32[8,4], backward"] < y["constant %7, f32[], backward"], "backward flows up")
    check(x["forward, 6 nodes"] < x["backward, 3 nodes"] < x["update, 4 nodes"], "phases side by side")
    boxes = b.run("[...document.querySelectorAll('#boxes [data-box]')].map(e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; })")
    for i, p in enumerate(boxes):
        for q in boxes[:i]:
            check(p[2] <= q[0] or q[2] <= p[0] or p[3] <= q[1] or q[3] <= p[1], f"two boxes overlap: {p} {q}")


def a_selected_node_says_all():
    show(known.tiny(), "#open=1.2.3&loose=2")
    click_box("linear %3, f32[8,4], forward")
    same(shown(), "n3", "selection")
    same(lit(), ["linear %3, f32[8,4], forward"], "what is lit")
    same(text("[role=status]"), "selected: linear %3", "what a screen reader says")
    near = b.run("[...document.querySelectorAll('[data-box].near')].map(e => e.getAttribute('aria-label')).sort()")
    same(near, ["relu %2, f32[8,4], forward", "relu %4, f32[8,4], forward"], "its neighbours")
    said = details()
    for part in ("linear %3", "net/b", "forward", "out=4", "onednn", "cuda: no GPU", "10.0 us (measured)", "256 FLOP", "net/b/weight", "tiny.c:13",
                 "128 bytes", "0x0", "steps 3 to 4", "Operands", "%2 f32[8,4] of relu", "Kept alive until step 4 by\nrelu %4"):
        check(part in said, f"details lack '{part}': {said}")
    b.click("#details [data-select='n4']")
    same(shown(), "n4", "a link in the details selects")
    check("Kept alive until step 7 by\nrelu_backward %8" in details(), "which node keeps the buffer alive")
    click_box("all_reduce %11, f32[8,4], update")
    said = details()
    check("Why this collective is here " + known.WHY in " ".join(said.split()), f"why the collective is there: {said}")
    check("lies in %10" in re.sub(r"\s+", " ", said), "a view says whose memory it has")
    same([w for w in ("%10", "%12") if w in said.split("Values in the same buffer")[1]], ["%10", "%12"], "values in the same buffer")
    b.key("Escape")
    same(shown(), "", "Escape selects nothing")
    check("704 bytes" in details() and "step 7" in details(), "then the graph has its arena and peak")


def a_path_leads_from_one_to_another():
    show(known.tiny(), "#open=1.2.3&loose=2")
    click_box("input %0, f32[8,4], forward")
    b.click("[data-do='path-start']")
    click_box("loss %6, f32[], forward")
    b.click("[data-do='path-end']")
    found = b.run("[...document.querySelectorAll('#details h3')].filter(h => h.textContent.startsWith('Path')).map(h => h.textContent + ': ' + [...h.nextSibling.querySelectorAll('button')].map(x => x.dataset.select).join(' '))")
    same(found, ["Path, 6 nodes: n0 n1 n2 n3 n4 n6"], "the path")
    check(b.run("document.querySelector('.edges.lit').getAttribute('d').split('M').length") == 6, "its five edges are lit")
    click_box("constant %7, f32[], backward")
    b.click("[data-do='path-end']")
    check("No path leads" in details(), "no path is said")


def the_slider_moves_over_passes():
    show(known.tiny(), "#open=1.2.3&loose=2")
    check("after memory (3 of 3, what runs): 13 nodes" in b.run("document.getElementById('pass-name').value"), "the last pass at first")
    click_box("loss %6, f32[], forward")
    check("%4 f32[8,4] of relu" in details(), "operands of the last pass")
    b.run("document.getElementById('pass').focus()")
    b.key("ArrowLeft")
    check(b.run("document.getElementById('keep-places').checked"), "places are kept from now on")
    check("all_reduce %11, f32[8,4], update" not in labels() and "sgd %13, f32[8,4], update" in labels(), "after autodiff there is no collective")
    b.key("ArrowLeft")
    check("identity %5, f32[8,4], forward" in labels(), "the first pass has the node that goes")
    check(not any("backward" in name for name in labels()), "and no backward")
    check("%5 f32[8,4] of identity" in details(), f"operands of the first pass: {details()}")
    same(address()["pass"], "0", "the address has the pass")
    places = b.run("[...document.querySelectorAll('#boxes [data-box]')].map(e => [e.dataset.box, e.getAttribute('transform')])")
    b.key("[")
    before = dict(b.run("[...document.querySelectorAll('#boxes [data-box]')].map(e => [e.dataset.box, e.getAttribute('transform')])"))
    b.run("document.getElementById('picture').focus()")
    b.key("]")
    after = dict(b.run("[...document.querySelectorAll('#boxes [data-box]')].map(e => [e.dataset.box, e.getAttribute('transform')])"))
    survivors = [n for n in before if n in after and int(n) < 7]
    same([before[n] for n in survivors], [after[n] for n in survivors], "nodes that survive keep their places")
    check(len(places) > 5 and len(survivors) == 6, f"there are survivors: {survivors}")


# ---- search, keyboard, links ----


def the_search_finds_and_opens():
    show(known.tiny())
    b.key("/")
    b.type("relu_back")
    same(b.run("[...document.querySelectorAll('#found [data-found]')].map(e => e.textContent)"),
         ["relu_backward %8 net/b, backward", "relu_backward %9 net/a, backward"], "what is found")
    b.key("Enter")
    same(shown(), "n8", "Enter selects the first")
    same(lit(), ["relu_backward %8, f32[8,4], backward"], "its scopes were opened, and it is lit")
    b.key("/")
    b.run("document.getElementById('search').value = ''")
    b.type("net/b weight")
    check("net/b/weight" in text("#found"), "two words find the parameter")
    b.key("ArrowDown")
    b.key("Enter")
    same(shown(), "p1", "arrows choose")
    check("Used by\nlinear %3" in details(), "the parameter's node")
    b.key("/")
    b.run("document.getElementById('search').value = ''")
    b.type("identity")
    b.key("Enter")
    same((shown(), address()["pass"]), ("n5", "0"), "a node of another pass brings its pass")
    b.key("/")
    b.run("document.getElementById('search').value = ''")
    b.type("zebra")
    check("nothing found" in text("#found"), "nothing is said")


def with_two_results():
    """tiny(), in which sgd has two results, the second one larger: %14."""
    data = known.tiny()
    graph = data["plans"][0]["graphs"][0]
    values, more = graph["values"], {"node": 13, "name": len(data["texts"]), "type": len(data["texts"]) + 1, "bytes": 4096, "offset": -1, "base": -1, "from": -1, "until": -1}
    values["node"] = list(range(14))
    for key, value in more.items():
        values[key] = [*values[key], value]
    data["texts"] += ["%14", "f32[1024]"]
    graph["results"]["at"] = [*range(14), 15]
    return data


def values_are_found_and_results_are_seen():
    show(with_two_results())
    name = "sgd %13, f32[8,4], f32[1024], update"
    check(name in labels(), "the label of a box has all results")
    check("f32[1024] +1" in text(box(name)), "the box shows the largest, and how many more there are")
    b.key("/")
    b.type("%14")
    check("value %14 f32[1024] of sgd %13" in text("#found"), "a second result is found, with its node")
    b.key("Enter")
    same((shown(), lit()), ("v14", [name]), "and selected")
    b.key("/")
    b.run("document.getElementById('search').value = ''")
    b.type("%1")
    same(b.run("document.querySelector('#found [data-found]').textContent"), "linear %1 net/a, forward", "the whole name comes first")


def a_path_waits_for_its_end():
    show(known.tiny(), "#open=1.2.3&loose=2&sel=n1")
    b.key("p")
    check("A path begins at linear %1" in text("#awaited"), "what it waits for is said")
    b.key("Escape")
    same((shown(), text("#awaited")), ("", "(no such)"), "Escape forgets it")
    click_box("linear %1, f32[8,4], forward")
    b.key("p")
    click_box("loss %6, f32[], forward")
    b.key("p")
    check(b.run("document.querySelectorAll('[data-box].near').length") >= 4 and text("#awaited") == "(no such)", "the path is shown")
    b.key("Escape")
    same((b.run("document.querySelectorAll('[data-box].near, [data-box].lit').length"), shown()), (0, ""), "Escape clears it")


def the_panel_closes_and_places_are_kept_when_asked():
    show(known.tiny())
    kept = lambda: b.run("document.getElementById('keep-places').checked")
    check(not kept(), "places are not kept at first")
    b.key("[")
    check(kept(), "they are when the slider moves")
    b.click("#keep-places")
    b.key("]")
    check(not kept(), "a person decides")
    width = b.run("document.getElementById('picture').clientWidth")
    b.key("d")
    check(b.run("document.getElementById('details').hidden && document.getElementById('picture').clientWidth") > width + 300, "the panel is closed")
    same(b.run("document.getElementById('panel-button').getAttribute('aria-expanded')"), "false", "and says so")
    b.click("#panel-button")
    b.click("#details .close")
    check(b.run("document.getElementById('details').hidden"), "a button closes it, too")


def settings_and_words_can_be_read():
    show(known.tiny())
    b.click("#settings summary")
    heights = b.run("[...document.querySelectorAll('#settings td')].map(e => e.getBoundingClientRect().height)")
    check(max(heights) < 30, f"a setting is one line: {heights}")
    b.key("?")
    for word in ("arena", "derived", "deferred", "bucket", "pack", "subgraph", "view of memory"):
        check(word in text("#help"), f"the words have '{word}'")
    same(b.run("[...document.querySelectorAll('#details dt')].filter(e => e.title).map(e => e.textContent)"), ["arena", "peak"], "rows of these names have tips")


def the_whole_is_seen_first_and_a_selection_stays_visible():
    tool, zoo, file, page = build / "graphtool", build / "weft-zoo", folder / "resnet18.bin", folder / "first.html"
    subprocess.run([zoo, "resnet18", "-o", file], check=True)
    subprocess.run([tool, "view", file, "-o", page], check=True)
    b.open(f"file://{page}", width=1500, height=950)
    inside = "(() => { const p = document.getElementById('picture').getBoundingClientRect(); return e => { const r = e.getBoundingClientRect(); return p.left <= r.left && r.right <= p.right && p.top <= r.top && r.bottom <= p.bottom; }; })()"
    check(b.run(f"[...document.querySelectorAll('[data-box].phase')].length === 3 && [...document.querySelectorAll('[data-box].phase')].every({inside})"), "all phases are seen at first")
    check(float(address()["view"].split(",")[2]) >= 0.6, "and can be read")
    b.size(1000, 700)
    for word in ("sgd_update", "layer4 conv2d", "cross_entropy_backward"):
        b.key("/")
        b.run("document.getElementById('search').value = ''")
        b.type(word)
        b.key("Enter")
        check(b.run(f"[...document.querySelectorAll('#picture .lit')].some({inside})"), f"{word}: what is selected is in the picture")


def the_keyboard_is_enough():
    show(known.tiny())
    b.run("document.getElementById('picture').focus()")
    b.key("Enter")
    focused = lambda: b.run("document.activeElement.getAttribute('aria-label')")
    check("forward" in focused(), f"Enter enters the picture: {focused()}")
    b.run(f"document.querySelector({json.dumps(box('input %0, f32[8,4], forward'))}).focus()")
    b.key("ArrowDown")
    same(focused(), "scope net, forward, 4 nodes", "an arrow moves on")
    b.key("Enter")
    check("scope net/a, forward, 2 nodes, one of 2 equal" in labels(), "Enter opens")
    same(focused(), "scope net, forward, 4 nodes", "and keeps the focus")
    b.key("Enter")
    check("scope net/a, forward, 2 nodes, one of 2 equal" not in labels(), "Enter closes")
    b.key(" ")
    same(shown(), "s1", "Space selects")
    b.key("ArrowRight")
    same(focused(), "scope net, backward, 2 nodes", "to the next phase")
    for key, panel in (("m", "memory"), ("s", "streams"), ("t", "tables"), ("g", "graph")):
        b.key(key)
        check(b.run(f"!document.getElementById('view-{panel}').hidden"), f"{key} shows {panel}")
    view = address()["view"]
    b.run("document.getElementById('picture').focus()")
    b.key("+")
    check(float(address()["view"].split(",")[2]) > float(view.split(",")[2]), "+ enlarges")
    b.key("0")
    b.key("?")
    check(b.run("!document.getElementById('help').hidden"), "? lists the keys")


def a_link_shows_the_same():
    show(known.tiny(), "#open=1.2.3&loose=2&sel=n3&pass=1&tab=tables&table=nodes")
    parts = address()
    same({k: parts.get(k) for k in ("graph", "open", "loose", "sel", "pass", "tab", "table")},
         {"graph": "train", "open": "1.2.3", "loose": "2", "sel": "n3", "pass": "1", "tab": "tables", "table": "nodes"}, "the address")
    b.run("location.hash = '#open=1&sel=s1&tab=graph'")
    b.settle()
    same((shown(), "scope net/a, forward, 2 nodes, one of 2 equal" in labels()), ("s1", True), "an address that changes is shown")
    b.run("location.hash = '#sel=n3'")
    b.settle()
    same((shown(), lit()), ("n3", ["linear %3, f32[8,4], forward"]), "what is selected is opened where nothing says what is")
    b.run("location.hash = '#open=1&view=-80,33,0.75'")
    b.settle()
    same((b.run("document.getElementById('camera').getAttribute('transform')"), address()["view"]), ("translate(-80 33) scale(0.75)", "-80,33,0.75"), "the part that is seen")
    for wrong in ("#sel=n999&open=77.x&pass=-3&view=a,b,c&graph=%E0%A4%A", "#sel=zz&pass=1e9&view=0,0,0&plan=7", "#=&&==", "#sel=n-1&tab=nothing&step=99"):
        b.run(f"location.hash = {json.dumps(wrong)}")
        b.settle()
        check("input %0, f32[8,4], forward" in labels(), f"{wrong} shows the graph")
        same(shown(), "", wrong)


def what_is_done_is_undone_by_back():
    show(known.tiny())
    at_first = address()
    b.click("[data-toggle='15']")
    same(address()["open"], "1", "a scope opened")
    click_box("input %0, f32[8,4], forward")
    address()
    tab("memory")
    address()
    b.run("document.getElementById('step').focus()")
    b.key("ArrowRight")
    b.key("ArrowRight")
    same(address()["step"], "2", "the step moved")
    b.key("[")
    same(address()["pass"], "1", "a pass before")

    def back(*parts):
        b.run("history.back()")
        b.run("new Promise(done => setTimeout(done, 300))")
        now = address()
        return [now.get(part) for part in parts] if parts else now

    same(back("pass", "tab", "step", "sel"), ["2", "memory", "2", "n0"], "back to the last pass, the step as it was left")
    same(back("tab", "sel", "open"), ["graph", "n0", "1"], "back to the graph")
    same((shown(), back("sel", "open")), ("n0", [None, "1"]), "back to no selection")
    same(shown(), "", "which the details say, too")
    same(back(), at_first, "back to the first view")


def the_other_plan_shows_the_same():
    show(known.pair(), "#plan=0&open=1.2.3&loose=2&sel=n4&pass=1&view=-40,30,0.9")
    before = b.run("document.querySelector('[data-box=\"4\"]').getBoundingClientRect().top")
    choose("plan", 1)
    now = address()
    same([now.get(k) for k in ("plan", "sel", "open", "loose", "pass")], ["1", "n4", "1.2.3", "2", "1"], "selection, scopes and pass stay")
    same((now["view"].split(",")[2], b.run("document.querySelector('[data-box=\"4\"]').getBoundingClientRect().top")), ("0.9", before), "zoom and place, too")
    b.click("[data-box='1']")
    choose("plan", 0)
    same(shown(), "n3", "the node that the difference pairs it with")
    b.click("[data-box='6']")
    b.click("#details .link[data-select='v6']")
    choose("plan", 1)
    same(shown(), "v7", "a value is its node's")
    choose("plan", 0)
    same(shown(), "v6", "and back")
    b.click("[data-box='5']") if "identity %5, f32[8,4], forward" in labels() else b.run("location.hash = '#plan=0&open=1&sel=n12'")
    b.settle()
    choose("plan", 1)
    same(shown(), "", "what the other has not is not selected")


def an_earlier_pass_has_no_places():
    show(known.tiny(), "#open=1.2.3&loose=2&sel=n4")
    check("Kept alive" in details() and "address" in details(), "the last pass has them")
    b.key("[")
    for part in ("Kept alive", "address", "alive\n", "step\n", "kernel\n", "10.0 us"):
        check(part not in details(), f"an earlier one does not: '{part}' in {details()}")
    check(" us" not in b.run("document.getElementById('boxes').textContent"), "nor do boxes have times")
    check("those of what runs" in details(), "but says where they are")
    for name in ("memory", "streams", "tables"):
        tab(name)
        check(b.run(f"document.querySelector('#view-{name} .of-last').checkVisibility()") and "autodiff" in text(f"#view-{name} .of-last"), f"{name} says that it shows what runs")
    b.key("]")
    check(b.run("!document.querySelector('#view-tables .of-last').checkVisibility()"), "not at the last pass")


def the_mouse_moves_what_is_seen():
    show(known.tiny(), "#open=1&view=10,20,1&sel=n0")
    x, y = b.run("(() => { const r = document.getElementById('picture').getBoundingClientRect(); return [r.left, r.top]; })()")
    b.drag(x + 500, y + 300, 40, -30)
    same((address()["view"], shown()), ("50,-10,1", "n0"), "a drag moves the picture and selects nothing")
    b.wheel(x + 200, y + 100, -120)
    left, top, scale = map(float, address()["view"].split(","))
    check(scale > 1 and abs((200 - left) / scale - 150) < 1 and abs((100 - top) / scale - 110) < 1, f"the wheel zooms at the pointer: {left} {top} {scale}")
    click_box("loss %6, f32[], forward")
    same(shown(), "n6", "a click after a drag is one")
    same(b.run("getSelection().toString()"), "", "a drag selects no text")
    show(known.tiny(), "#open=1.2.3&loose=2&view=300,-150,1.5")
    view, at = address()["view"], b.run("(() => { const r = document.querySelector('[data-box=\"17\"]').getBoundingClientRect(); return [r.left + 5, r.bottom - 5]; })()")
    b.click_at(*at)
    same((shown(), address()["view"]), ("s3", view), "a click on the empty part of an opened scope selects it where it is")
    show(known.tiny(), "#tab=memory")
    for _ in range(3):
        b.wheel(*plane("memory", 3.5, 64, known.STEPS, known.ARENA), -300)
    b.click_at(*plane("memory", 3.5, 64, known.STEPS, known.ARENA))
    same(shown(), "v3", "the pointer's place stays where it is")
    b.run("document.getElementById('memory').focus()")
    b.key("0")
    b.click_at(*plane("memory", 7.5, 520, known.STEPS, known.ARENA))
    same(shown(), "v8", "0 shows all again")


# ---- memory, streams, tables ----


def plane(canvas, x, y, width, height):
    """The pixel of a point of a chart's plane (timeline.js has the margins)."""
    left, top, w, h = b.run(f"(() => {{ const r = document.getElementById('{canvas}').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()")
    return left + 74 + x / width * (w - 74 - 34), top + h - 26 - y / height * (h - 16 - 26)


def the_memory_map_has_each_buffer():
    show(known.tiny(), "#tab=memory")
    same(text("#alive h3"), f"Alive at step {known.PEAK_STEP}: 4 buffers, {known.PEAK_BYTES} bytes, the peak", "what is alive at the peak")
    same([row[:1] + row[3:] for row in table_rows("#alive")],
         [["%2", "128 bytes", "2", "8"], ["%4", "128 bytes", "4", "7"], ["%8", "128 bytes", "7", "8"], ["%7", "4 bytes", "6", "7"]], "its table")
    for v, (size, offset, base, first, last) in enumerate(known.VALUES):
        if base < 0 <= offset:
            b.click_at(*plane("memory", (first + last + 1) / 2, offset + size / 2, known.STEPS, known.ARENA))
            same(shown(), f"v{v}", f"a click on the buffer of %{v}")
    node, offset, size = known.WORKSPACE
    b.click_at(*plane("memory", known.NODES[node][5] + 0.5, offset + size / 2, known.STEPS, known.ARENA))
    same((shown(), text("#alive h3")), (f"n{node}", "Alive at step 3: 3 buffers, 320 bytes"), "a workspace is its node's")
    b.click_at(*plane("memory", 11.5, 500, known.STEPS, known.ARENA))
    same((shown(), text("#alive h3")), ("", "Alive at step 11: 1 buffer, 128 bytes"), "where nothing is")
    b.run("document.getElementById('step').focus()")
    b.key("ArrowLeft")
    check("Alive at step 10" in text("#alive h3"), "the slider moves the step")
    b.click("#to-peak")
    check("the peak" in text("#alive h3"), "the button goes to the peak")
    b.click("#alive [data-select='v4']")
    same(shown(), "v4", "a row selects")
    tab("graph")
    b.settle()
    same(lit(), ["relu %4, f32[8,4], forward"], "and the graph shows it")


def exposed_waits_are_marked():
    show(known.tiny(), "#tab=streams")
    same(text("#waits h3"), "Exposed: compute waits for 1 collective, 30.0 us", "exposed waits")
    same(table_rows("#waits"), [["all_reduce %11", "net.0", "wait %12", "100.0 us", "30.0 us", "30.0 us"]], "their table")
    b.click_at(*plane("streams", 115, 0.5, 140, 2))
    same(shown(), "n11", "a click on the collective")
    b.click_at(*plane("streams", 15, 1.5, 140, 2))
    same(shown(), "n1", "a click on a kernel")
    b.run(f"document.getElementById('streams').dispatchEvent(new MouseEvent('mousemove', {{clientX: {plane('streams', 15, 1.5, 140, 2)[0]}, clientY: {plane('streams', 15, 1.5, 140, 2)[1]}}}))")
    same(text("#hover"), "linear %1\nnet/a\nonednn, step 1, 10.0 us (measured)", "what the pointer is over")
    red = b.run("getComputedStyle(document.documentElement).getPropertyValue('--exposed')").strip()
    same(pixel("streams", 115, 140, 21), tuple(int(red[i:i + 2], 16) for i in (1, 3, 5)), "the wait is marked in the picture")
    data = known.tiny()
    data["plans"][0]["graphs"][0]["time"] = {"kind": "steps", "total_us": 0}
    show(data, "#tab=streams")
    check("Exposed: compute waits for 1 collective, 1 step" in text("#waits h3"), f"the same in steps: {text('#waits h3')}")
    nodes = data["plans"][0]["graphs"][0]["nodes"]
    nodes["lane"], nodes["waits_for"] = [0] * 14, [-1] * 14
    show(data, "#tab=streams")
    b.click_at(*plane("streams", 3.5, 0.25, known.STEPS, 1))
    same(shown(), "n3", "without collectives there is one lane")
    nodes["lane"] = [1 if i in (9, 11) else 0 for i in range(14)]  # two in flight at once: from 8 and from 10, both until 11
    nodes["waits_for"] = [9 if i == 13 else 11 if i == 12 else -1 for i in range(14)]
    show(data, "#tab=streams")
    for number, above in ((9, 1.25), (11, 1.75)):
        b.click_at(*plane_part(10.5, above))
        same(shown(), f"n{number}", "collectives in flight at once lie one below the other")


def plane_part(x, lane):
    """The pixel of a step and a lane of the streams: 1.25 is the middle of the upper half of communication."""
    at, height = plane("streams", x, 2, known.STEPS, 2), b.run("document.getElementById('streams').clientHeight - 16 - 26")
    return at[0], at[1] + 8 + height / 2 + (lane - 1) * (height / 2 - 16)


def pixel(canvas, x, width, y):
    """(r, g, b) of a canvas, at x of its plane and y pixels."""
    return tuple(b.run(f"(() => {{ const c = document.getElementById('{canvas}'), w = c.clientWidth; "
                       f"return [...c.getContext('2d').getImageData(Math.round(74 + {x} / {width} * (w - 108)), {y}, 1, 1).data].slice(0, 3); }})()"))


def tables_sort_and_select():
    show(known.tiny(), "#tab=tables&open=1.2.3&loose=2")
    rows, data_us = {row[0]: row[1:] for row in table_rows("#rows")}, [us for us in known.times(known.NODES)[1] if us > 0]
    time, size = sum(data_us), 7 * 128 + 8
    same(rows["linear"], ["20.0 us", f"{2000 / time:.1f} %", "2", "256 bytes", f"{25600 / size:.1f} %", "512 FLOP"], "a row by op")
    same(rows["all_reduce"], ["30.0 us", f"{3000 / time:.1f} %", "1", "0 bytes", "0.0 %", ""], "another")
    same([row[0] for row in table_rows("#rows")][:1], ["all_reduce"], "what takes most time is first")
    check("addresses are used again" in b.run("document.querySelector('#rows th:nth-child(5)').title"), "the column of buffers says what it sums")
    b.click("[data-sort='3']")
    same([row[0] for row in table_rows("#rows")][:3], sorted(["linear", "relu", "relu_backward"]), "sorted by number")
    same(b.run("document.querySelector('[aria-sort]').getAttribute('aria-sort')"), "descending", "aria-sort")
    b.click("[data-sort='0']")
    b.click("[data-sort='0']")
    names = [row[0] for row in table_rows("#rows")]
    same(names, sorted(names, reverse=True), "the other way round")
    b.run("[...document.querySelectorAll('#rows tr')].find(r => r.textContent.startsWith('linear')).querySelector('button').click()")
    b.settle()
    check("op linear" in details(), "a row selects the op")
    tab("graph")
    b.settle()
    same(lit(), ["linear %1, f32[8,4], forward", "linear %3, f32[8,4], forward"], "all its nodes are lit")
    want = {"scopes": [["(top)", "140.0 us"], ["net", "60.0 us"], ["net/a", "30.0 us"], ["net/b", "30.0 us"]],
            "parameters": [["net/a/weight", "parameter"], ["net/b/weight", "parameter"]], "buckets": [["net.0", "128 bytes"]]}
    tab("tables")
    choose("table", "nodes")
    same(table_rows("#rows")[1], ["linear %1", "net/a", "forward", "10.0 us", f"{1000 / time:.1f} %", "128 bytes", "f32[8,4]", "onednn", "1"], "a node, in the order of steps")
    for name, first in want.items():
        choose("table", name)
        same([row[:2] for row in table_rows("#rows")], first, f"table {name}")
    same(text("#rows tfoot"), "in all128 bytes2", "the sum of all buckets")
    b.run("document.querySelector('#rows tr[data-select=b0] td:nth-child(3)').click()")
    b.settle()
    same(shown(), "b0", "any cell of a row selects")
    b.click("#rows [data-select='b0'] button")
    check("Parameters\nnet/a/weight\nnet/b/weight" in details(), "a bucket has its parameters")
    tab("graph")
    b.settle()
    check("all_reduce %11, f32[8,4], update" in lit(), "and its collective is lit")


# ---- how it looks, and for whom ----


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def text_is_legible():
    grounds = ("ground", "panel", "forward", "backward", "update", "collective", "memory")
    pairs = [("text", g) for g in grounds] + [(t, g) for t in ("quiet", "focus", "lit", "added", "removed", "changed", "exposed") for g in ("ground", "panel")]
    for scheme in ("light", "dark"):
        show(known.tiny(), scheme=scheme)
        colour = lambda name: b.run(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}')").strip()
        for text_colour, ground in pairs:
            bright, dim = sorted((luminance(colour(text_colour)), luminance(colour(ground))), reverse=True)
            contrast = (bright + 0.05) / (dim + 0.05)
            check(contrast >= 4.5, f"{scheme}: {text_colour} on {ground} has a contrast of {contrast:.2f}")


def it_works_at_400_percent():
    show(known.pair(), width=320, height=256)
    for name in ("graph", "memory", "streams", "tables", "changes"):
        tab(name)
        wide = b.run("document.scrollingElement.scrollWidth")
        check(wide <= 320, f"{name}: the page is {wide} pixels wide")
    tab("graph")
    click_box("input %0, f32[8,4], forward")
    same(shown(), "n0", "selecting works")
    check(b.run("document.getElementById('picture').clientHeight") >= 100, "the picture has room")


def everything_has_a_name():
    roles = {"button", "textbox", "searchbox", "slider", "ComboBoxMenuList", "combobox", "image", "img", "tab", "checkbox", "tabpanel", "table", "listbox", "complementary"}
    for address_ in ("#open=1.2", "#tab=memory", "#tab=streams", "#tab=tables", "#tab=changes"):
        show(known.pair(), address_)
        count = 0
        for node in b.call("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value")
            if node.get("ignored") or role not in roles:
                continue
            count += 1
            check(node.get("name", {}).get("value", "").strip() or role == "table", f"{address_}: a {role} without a name: {node}")
        check(count > 10, f"{address_}: {count} names")


def what_is_seen_is_saved_as_svg():
    keep = "URL.createObjectURL = blob => (window.saved = blob, 'about:blank#'); HTMLAnchorElement.prototype.click = function () { window.named = this.download; }"
    cases = [(known.tiny(), "#open=1.2.3", ("linear", "forward", "\u00d72")), (known.tiny(), "#tab=memory", ("peak", "relu", "address", "step")),
             (known.tiny(), "#tab=streams", ("all_reduce", "compute", "comm.", "time")), (known.chain(200), "#tab=memory", ("relu, 4 bytes",)), (known.chain(200), "#tab=streams", ("compute",))]
    for data, address_, needs in cases:
        show(data, address_, scheme="dark")
        b.run(keep)
        b.key("x")
        saved = b.run("window.saved.text()")
        root = ElementTree.fromstring(saved)
        same(root.tag, "{http://www.w3.org/2000/svg}svg", "an SVG")
        said = " ".join(root.itertext())
        for part in needs:
            check(part in said, f"{address_}: the SVG lacks '{part}'")
        check("comm." in needs or "comm." not in said, "no lane of communication without collectives")
        check("var(" not in saved and "<script" not in saved, f"{address_}: it needs no variables and no script")
        check(b.run("window.named").endswith(".svg"), "it has a name")


# ---- names that attack, plans that differ, large plans, models of the zoo ----


def names_are_text():
    evil = "</script><img src=x onerror=alert(1)><script>alert(2)</script><!--"
    show(known.tiny(title=evil, op=evil), "#sel=n6")
    same(text("h1"), evil, "the title is text")
    check(evil in details(), "the op is text")
    for name in ("memory", "streams", "tables"):
        tab(name)
        check(b.run("document.querySelectorAll('img').length") == 0, f"{name}: no element was made of a name")


def differences_are_listed_and_drawn():
    show(known.pair(), "#tab=changes")
    same(table_rows("#changes table[aria-label=Changes]"), [["net/a/relu", "\u2260 changed", "node", "", "train", "relu -> gelu"], ["sgd", "+ added in B", "node", "sgd", "train", ""],
                                  ["identity", "\u2212 only in A", "node", "", "train", ""], ["batch", "\u2260 changed", "setting", "", "", "8 -> 16"]], "the list")
    check("4 changes from A, a.bin, to B, b.bin" in text("#changes") and "and 1 that only follow" in text("#changes"), "what follows is counted")
    b.click("#follows")
    check("f32[] -> f32[1]" in text("#changes"), "and shown when asked for")
    b.click("#changes [data-select='c0'] button")
    same((address().get("plan"), shown()), ("1", "n2"), "a change is shown in B")
    check(b.run("document.querySelector('[data-box=\"2\"]').classList.contains('changed')"), "and marked")
    check("changed: relu -> gelu" in details(), "the details say it")
    tab("changes")
    check(b.run("document.querySelector('#changes tr.lit').dataset.select") == "c0", "the list marks the selection")
    b.click("#changes [data-select='c2'] button")
    same((address().get("plan"), shown()), ("0", "n5"), "what only A has is shown in A")
    check(b.run("document.querySelector('[data-box=\"5\"]').classList.contains('removed')"), "and marked")
    choose("plan", 1)
    b.key("]")
    b.key("]")
    b.click("[data-do='fit']")
    check(b.run("document.querySelector('[data-box=\"13\"]').classList.contains('added')"), "the added node is marked in B")


def two_plans_are_summed_up():
    show(known.pair(), "#tab=changes&open=1.2.3&loose=2")
    rows = {row[0]: row[1:] for row in table_rows("#changes table[aria-label=Summary]")}
    same(rows["total"], ["864 bytes", "1.09 KiB", "+256 bytes (+29.6 %)"], "memory")
    same(rows["train: arena"], ["704 bytes", "960 bytes", "+256 bytes (+36.4 %)"], "the arena")
    same(rows["train: nodes that run"], ["13", "13", ""], "what is equal has no difference")
    same(rows["train: alive at the peak"], ["388 bytes", "644 bytes", "+256 bytes (+66.0 %)"], "peaks")
    same(rows["train: step of the peak"], ["7 of 13", "4 of 13", ""], "their steps")
    same(rows["train: runs at the peak"], ["relu_backward %8", "relu %4", ""], "and what runs then")
    same(rows["train: time of a step"], ["140.0 us", "140.0 us", ""], "times")
    same(table_rows("#changes table[aria-label^=Alive]"), [["net/a", "gelu", "0 bytes", "384 bytes in 3", "+384 bytes"]], "what only B has alive")
    b.click("[data-peak='0.0.8']")
    same((address().get("plan"), shown()), ("0", "n8"), "the node of the peak is shown in its plan")
    data = known.pair()
    data["plans"][1]["graphs"][0]["time"]["kind"] = "steps"
    show(data, "#tab=changes")
    check("time of a step" not in text("#changes"), "times are compared where both are measured")


def a_scope_of_one_plan_is_marked():
    data = known.pair()
    data["difference"]["changes"] += [{"kind": "added", "what": "node", "path": "net/b", "text": "", "graphs": [0, 0], "nodes": [-1, node], "op": "x"} for node in (3, 4, 8)]
    show(data, "#plan=1&open=1.2&loose=2")
    marked = lambda: b.run("[...document.querySelectorAll('[data-box].scope.added')].map(e => e.getAttribute('aria-label')).sort()")
    same(marked(), ["scope net/b, backward, 1 node", "scope net/b, forward, 2 nodes"], "a closed scope that B has alone")
    b.run("location.hash = '#plan=1&open=1.2.3&loose=2'")
    b.settle()
    same(marked(), ["scope net/b, backward, 1 node", "scope net/b, forward, 2 nodes"], "an open one")
    check(b.run("!document.querySelector('[data-box].scope.changed[aria-label^=\"scope net/b\"]')"), "it is not a changed one")


def large_plans_draw_what_is_seen():
    show(known.chain(1))
    same(sorted(labels()), ["forward, 1 node", "relu %0, f32[1], forward"], "the smallest one")
    show(known.chain(130000))
    elements = lambda: b.run("document.querySelectorAll('svg *').length")
    check(0 < elements() < 2000, f"{elements()} elements at first")
    for _ in range(30):
        b.run("document.querySelector('[data-do=zoom-out]').click()")
        b.settle()
    check(0 < elements() < 15000, f"{elements()} elements far away")
    check(b.run("document.querySelectorAll('.band').length") > 0, "boxes became bands")
    b.key("/")
    b.type("%129999")
    b.key("Enter")
    same((shown(), lit()), ("n129999", ["relu %129999, f32[1], forward"]), "the last node is found and shown")
    check(elements() < 15000, f"{elements()} elements at the end")
    for name in ("memory", "streams", "tables"):
        tab(name)
        b.settle()
    choose("table", "nodes")
    check("130,000 rows" in text("#rows p") and "page 650 of 650" in text("#rows p"), f"the table shows the page of the selection: {text('#rows p')}")
    check(b.run("document.querySelectorAll('#rows tr').length") < 300, "and no more than a page")
    choose("table", "ops")
    b.click("#rows [data-select] button")
    check("and 129900 more" in details() and b.run("document.querySelectorAll('#details *').length") < 1000, "details list some of many")


def models_of_the_zoo_open():
    tool, zoo = build / "graphtool", build / "weft-zoo"
    models = [("dcgan28", ["--world=4"], []), ("resnet18", [], []), ("gpt", ["--world=4", "--zero=1"], ["--layers=48"])]
    for name, options, sizes in models:
        file, page = folder / f"{name}.bin", folder / f"{name}.html"
        subprocess.run([zoo, name, *sizes, "-o", file], check=True)
        subprocess.run([tool, "view", file, *options, "-o", page], check=True)
        plan = json.loads(subprocess.run([tool, "plan", file, *options, "--json"], check=True, capture_output=True, text=True).stdout)
        b.open(f"file://{page}")
        check(b.run("document.querySelectorAll('[data-box]').length") > 5, f"{name}: a picture")
        for at, graph in enumerate(plan["graphs"]):
            choose("graph", at)
            where = f"{name} {graph['name']}"
            check(f": {graph['nodes']:,} node" in b.run("document.getElementById('pass-name').value"),
                  f"{where}: {b.run('document.getElementById(`pass-name`).value')}, the plan has {graph['nodes']} nodes")
            for panel in ("memory", "streams", "tables", "graph"):
                tab(panel)
            nodes_keep_their_places(where)
            complain(where)


def pages_of_two_models_and_of_measured_times_open():
    tool, zoo, sizes = build / "graphtool", build / "weft-zoo", ["--d=48", "--heads=2", "--ctx=32"]
    a, more, page = folder / "a.bin", folder / "b.bin", folder / "ab.html"
    subprocess.run([zoo, "gpt", "--layers=2", *sizes, "-o", a], check=True)
    subprocess.run([zoo, "gpt", "--layers=3", *sizes, "-o", more], check=True)
    subprocess.run([tool, "view", a, more, "-o", page], check=True)
    b.open(f"file://{page}")
    same(b.run("[...document.querySelectorAll('#plan option')].map(e => e.textContent)"), ["A a.bin", "B b.bin"], "plans of one name are called by their files")
    check("input tokens" in b.run("document.getElementById('boxes').textContent"), "an input has its name")
    b.open(f"file://{page}#tab=changes")
    added = b.run("[...document.querySelectorAll('#changes tbody tr')].find(r => r.cells[2].textContent === 'node' && r.textContent.includes('added')).dataset.select")
    b.click(f"#changes [data-select='{added}'] button")
    check(b.run("document.querySelector('[data-box].lit').classList.contains('added')"), "a node that was added is shown, and marked")
    check("change\nadded in B" in details(), "its details say so")
    subprocess.run([tool, "view", a, "--profile", "-o", page], check=True)
    b.open(f"file://{page}#tab=streams")
    check("Times are measured" in text("#streams-text"), f"measured times: {text('#streams-text')}")
    tab("tables")
    check("time" in text("#rows thead"), "the table by op has them")


def nodes_keep_their_places(where):
    """Over all passes, from the last to the first."""
    if not b.run("document.getElementById('keep-places').checked"):
        b.click("#keep-places")
    before, count = {}, b.run("document.getElementById('pass').max")
    for _ in range(int(count) + 1):
        after = dict(b.run("[...document.querySelectorAll('#boxes [data-box]')].map(e => [e.dataset.box, e.getAttribute('transform')])"))
        check(len(after) > 1, f"{where}: a pass without a picture")
        moved = [n for n in after if before.get(n, after[n]) != after[n]]
        check(not moved, f"{where}: boxes moved: {[(n, before[n], after[n]) for n in moved[:3]]}")
        before |= after
        b.key("[")


CASES = [scopes_open_and_equal_ones_are_drawn_once, a_layer_lies_beside_its_gradient, a_selected_node_says_all, a_path_leads_from_one_to_another,
         the_slider_moves_over_passes, what_is_done_is_undone_by_back, the_other_plan_shows_the_same, an_earlier_pass_has_no_places, the_mouse_moves_what_is_seen, the_search_finds_and_opens, values_are_found_and_results_are_seen, a_path_waits_for_its_end,
         the_panel_closes_and_places_are_kept_when_asked, settings_and_words_can_be_read, the_whole_is_seen_first_and_a_selection_stays_visible,
         the_keyboard_is_enough, a_link_shows_the_same, the_memory_map_has_each_buffer,
         exposed_waits_are_marked, tables_sort_and_select, text_is_legible, it_works_at_400_percent, everything_has_a_name,
         what_is_seen_is_saved_as_svg, names_are_text, differences_are_listed_and_drawn, two_plans_are_summed_up, a_scope_of_one_plan_is_marked, large_plans_draw_what_is_seen,
         pages_of_two_models_and_of_measured_times_open, models_of_the_zoo_open]


def complain(where):
    """Of what the page logged, threw or asked for since it was opened."""
    for said in dict.fromkeys(b.complaints()):
        check(False, f"{where}: the page complains: {said}")
    for url in b.requests()[1:]:
        check(url.startswith("blob:"), f"{where}: the page asks for {url}")


def main():
    global b, case
    path = find_chromium()
    if not path:
        print("skipped: there is no Chromium here (tools/scripts/setup.sh installs it; WEFT_CHROMIUM names another)", file=sys.stderr)
        sys.exit(77)
    b = Chromium(path)
    wanted = sys.argv[2:]
    for run in CASES:
        case = run.__name__
        if wanted and case not in wanted:
            continue
        try:
            run()
            complain("at the end")
        except (RuntimeError, LookupError, subprocess.CalledProcessError) as error:
            check(False, f"{type(error).__name__}: {error}")
    b.close()
    subprocess.run(["rm", "-r", folder], check=True)
    print(f"{len(CASES) if not wanted else len(wanted)} cases, {len(failures)} failures")
    sys.exit(bool(failures))


main()
