/* main.js - tabs, buttons, and the first drawing. */
const TABS = [
    {id: "graph", name: "Graph", isHidden: () => false},
    {id: "memory", name: "Memory", isHidden: () => false},
    {id: "streams", name: "Streams", isHidden: () => false},
    {id: "tables", name: "Tables", isHidden: () => false},
    {id: "changes", name: "Changes", isHidden: () => !data.difference},
];

function shownTabs() {
    return TABS.filter(tab => !tab.isHidden());
}

function showTab(id) {
    state.tab = id;
    change("lit");
}

function drawTabs() {
    for (const tab of shownTabs()) {
        const isShown = tab.id === state.tab, made = byId("tab-" + tab.id);
        made.setAttribute("aria-selected", isShown);
        made.tabIndex = isShown ? 0 : -1;
        byId("view-" + tab.id).hidden = !isShown;
    }
}

/* Arrows move between tabs, as readers of a tablist expect. */
function listenTabs() {
    for (const tab of shownTabs())
        byId("tabs").append(element("button", {
            type: "button",
            role: "tab",
            id: "tab-" + tab.id,
            "aria-controls": "view-" + tab.id,
            "data-tab": tab.id
        },
                                    tab.name));
    byId("tabs").addEventListener("click", e => {
        const tab = e.target.closest("[data-tab]");
        if (tab) showTab(tab.getAttribute("data-tab"));
    });
    byId("tabs").addEventListener("keydown", e => {
        const by = {ArrowLeft: -1, ArrowRight: 1}[e.key], all = [...byId("tabs").children],
              at = all.indexOf(e.target);
        if (!by || at < 0) return;
        const next = all[(at + by + all.length) % all.length];
        next.focus();
        showTab(next.getAttribute("data-tab"));
    });
}

function toggleLoose() {
    const same = g.scopes.same[state.selection.id];
    if (state.loose.has(same)) state.loose.delete(same);
    else state.loose.add(same);
    change("boxes");
}

function closeAll() {
    state.open = new Set();
    state.loose = new Set();
    openFirst();
    camera.k = 0;
    change("boxes");
}

const BUTTONS = {
    "zoom-in": () => zoomBy(1.25),
    "zoom-out": () => zoomBy(0.8),
    "fit": fit,
    "close-all": closeAll,
    "save": saveSvg,
    "path-start": () => setStart(selectedNode()),
    "path-end": findPath,
    "loose": toggleLoose,
    "panel": togglePanel,
    "toggle": () => toggle(scopeBox(state.selection.id, FORWARD)),
};

function listenButtons() {
    document.addEventListener("click", e => {
        const from = e.target.closest("[data-do]");
        if (from) BUTTONS[from.getAttribute("data-do")]();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => change("lit"));
}

/* Views in the order in which they are drawn: boxes and what is lit first. */
function listViews() {
    views.push({tab: "", draw: refresh}, {tab: "", draw: drawTabs}, {tab: "", draw: drawHead},
               {tab: "graph", draw: drawPicture}, {tab: "memory", draw: drawMemoryView},
               {tab: "streams", draw: drawStreamsView}, {tab: "tables", draw: drawTables},
               {tab: "changes", draw: drawChanges},
               {tab: "", draw: what => what.has("camera") && what.size === 1 ? 0 : drawDetails()},
               {tab: "", draw: writeAddress});
}

listViews();
fillHead();
for (const listen of [listenTabs, listenHead, listenSelect, listenCamera, listenMemory, listenStreams,
                      listenTables, listenChanges, listenSearch, listenAddress, listenKeys, listenButtons])
    listen();
readAddress();
change("all");
