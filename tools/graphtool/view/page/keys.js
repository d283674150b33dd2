/* keys.js - the keyboard. In the picture, arrows move from box to box; the page's keys work everywhere but
 * in fields. */
const KEYS = [
    ["/", "search"],
    ["g m s t", "graph, memory, streams, tables"],
    ["[ ]", "the pass before, the pass after"],
    ["arrows", "in the picture: the next box in that direction"],
    ["Enter", "opens or closes a scope, selects a node"],
    ["Space", "selects"],
    ["+ - 0", "zoom, fit; also in memory map and streams"],
    ["Shift arrows", "move the picture"],
    ["Tab", "through the page"],
    ["p", "path: its first value, then its second"],
    ["Escape", "selects nothing"],
    ["x", "saves what is seen as SVG"],
    ["?", "this list"],
];
const DIRECTIONS = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1]
};

/* The drawn box that lies nearest in a direction; a step aside counts twice. */
function nextBox(from, [dx, dy]) {
    const {x, y, w, h} = layout, cx = x[from] + w[from] / 2, cy = y[from] + h[from] / 2;
    let best = -1, least = Infinity;
    for (const b of layout.drawn) {
        if (b === from || (isFrame(b) && !scopeOfBox(b))) continue;
        // A frame is where its title is: its upper left corner.
        const px = isFrame(b) ? x[b] + SCOPE_WIDTH / 2 : x[b] + w[b] / 2,
              py = isFrame(b) ? y[b] + FRAME_TOP / 2 : y[b] + h[b] / 2;
        const along = (px - cx) * dx + (py - cy) * dy,
              aside = Math.abs((px - cx) * dy) + Math.abs((py - cy) * dx);
        if (along > 4 && along + 2 * aside < least) {
            least = along + 2 * aside;
            best = b;
        }
    }
    return best;
}

function keyOnPicture(e) {
    const box = e.target.closest("[data-box]"), b = box ? Number(box.getAttribute("data-box")) : -1,
          direction = DIRECTIONS[e.key];
    if (direction && (e.shiftKey || b < 0)) panBy(-60 * direction[0], -60 * direction[1]);
    else if (direction) focusBox(Math.max(nextBox(b, direction), -1) < 0 ? b : nextBox(b, direction));
    else if (e.key === "Enter" && b < 0) focusBox(picture.current);
    else if (e.key === "Enter" && isScopeBox(b) && scopeOfBox(b)) toggle(b);
    else if ((e.key === "Enter" || e.key === " ") && b >= 0) selectBox(b);
    else if (e.key === "+" || e.key === "=") zoomBy(1.25);
    else if (e.key === "-") zoomBy(0.8);
    else if (e.key === "0") fit();
    else return;
    e.preventDefault();
}

function pathKey() {
    const node = selectedNode();
    if (node < 0) return;
    if (state.start >= 0 && state.start !== node) findPath();
    else setStart(node);
}

function setStart(node) {
    state.start = node;
    state.path = [];
    state.noPath = false;
    change("lit");
}

function toggleHelp() {
    const help = byId("help");
    help.hidden = !help.hidden;
    byId("help-button").setAttribute("aria-expanded", !help.hidden);
}

const PAGE_KEYS = {
    "/": () => byId("search").focus(),
    "g": () => showTab("graph"),
    "m": () => showTab("memory"),
    "s": () => showTab("streams"),
    "t": () => showTab("tables"),
    "[": () => setPass(Math.max(0, state.pass - 1)),
    "]": () => setPass(Math.min(g.last, state.pass + 1)),
    "p": pathKey,
    "Escape": () => select(null),
    "x": saveSvg,
    "?": toggleHelp,
};

function listenKeys() {
    byId("help").append(...KEYS.map(
        ([keys, does]) =>
            element("p", {}, ...keys.split(" ").flatMap(key => [element("kbd", {}, key), " "]), does)));
    byId("picture").addEventListener("keydown", keyOnPicture);
    byId("help-button").addEventListener("click", toggleHelp);
    document.addEventListener("keydown", e => {
        if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented ||
            /^(SELECT|TEXTAREA)$/.test(e.target.tagName))
            return;
        const does = PAGE_KEYS[e.key];
        if (!does) return;
        does();
        e.preventDefault();
    });
}
