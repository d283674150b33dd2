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
    ["d", "shows or hides the panel of details"],
    ["Escape", "selects nothing, forgets the path"],
    ["x", "saves what is seen as SVG"],
    ["?", "this list"],
];
/* Also the tips of rows and columns of these names. */
const WORDS = [
    [
        "arena",
        "one block of memory for everything that is not kept between runs; values use its addresses one after another"
    ],
    ["peak", "the step in which most bytes of the arena are needed"],
    [
        "derived",
        "parameters in the form that a kernel prefers, such as packed weights; computed again when a parameter has changed"
    ],
    ["deferred", "of a collective, wait or update: it may finish in a later run"],
    [
        "bucket",
        "parameters with the same settings, side by side: one collective sums them, one node updates them"
    ],
    ["pack", "a node that writes a weight in the order in which its kernel reads it"],
    ["subgraph", "a scope with its parameters, such as a generator, with options and ranks for itself"],
    ["view of memory", "a node that computes nothing: its value lies in the buffer of another"],
    [
        "beside it, to copy a checkpoint",
        "the copy that a checkpoint is written from, while training continues"
    ],
    [
        "new buffers",
        "sizes of the buffers that begin here, summed over the step: more than the arena, whose addresses are used again; what writes into a buffer that is there adds nothing"
    ],
    ["exposed", "of a wait: compute has nothing to do until the collective ends"],
];
const TIPS = new Map(WORDS);
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

function forgetAll() {
    setStart(-1);
    select(null);
}

function togglePanel() {
    state.hasPanel = !state.hasPanel;
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
    "d": togglePanel,
    "Escape": forgetAll,
    "x": saveSvg,
    "?": toggleHelp,
};

function listenKeys() {
    byId("help").append(...KEYS.map(
        ([keys, does]) =>
            element("p", {}, ...keys.split(" ").flatMap(key => [element("kbd", {}, key), " "]), does)));
    byId("help").append(
        ...WORDS.map(([word, is]) => element("p", {class: "word"}, element("b", {}, word), " " + is)));
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
