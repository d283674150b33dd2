/* link.js - what a link keeps, after the # of the address:
 * #plan=0&graph=train&pass=3&tab=graph&open=2.5&sel=n12&view=x,y,k. The address follows what is shown; an
 * address that changes is shown. A part that does not fit the plan is left out. */
const address = {
    written: "",
    isRead: true, // what is shown comes from the address
    view: null,   // the part of the picture that is shown once it is laid out
    timer: 0
};

function listText(set) {
    return [...set].sort((a, b) => a - b).join(".");
}

function viewText([x, y, k]) {
    return k === 0 ? "" : [x.toFixed(0), y.toFixed(0), Number(k.toPrecision(4))].join(",");
}

function addressText() {
    const parts = {
        graph: encodeURIComponent(g.name),
        pass: state.pass,
        tab: state.tab,
        table: state.table,
        open: listText(state.open),
        loose: listText(state.loose),
        sel: textOfSelection(state.selection),
        step: state.step,
        view: viewText(address.view || [camera.x, camera.y, camera.k])
    };
    if (data.plans.length > 1) parts.plan = state.plan;
    if (state.keepPlaces) parts.places = 1;
    return "#" +
           Object.keys(parts).filter(key => parts[key] !== "").map(key => key + "=" + parts[key]).join("&");
}

/* What "Back" undoes: all but small moves. */
function deedOf(text) {
    return text.replace(/&(step|view)=[^&]*/g, "");
}

/* After a pause, as a drag changes it with each frame. A selection, a tab, a pass, a plan or an opened scope
 * is an entry of the browser's history; a move of the picture or of the step is part of the entry. */
function writeAddress() {
    clearTimeout(address.timer);
    address.timer = setTimeout(() => {
        const text = addressText(), isNew = !address.isRead && deedOf(text) !== deedOf(address.written);
        address.written = text;
        address.isRead = false;
        if (isNew) history.pushState(null, "", text);
        else history.replaceState(null, "", text);
    }, 150);
}

function numbersOf(text, below) {
    return (text || "")
        .split(".")
        .filter(part => part !== "")
        .map(Number)
        .filter(n => Number.isInteger(n) && n >= 0 && n < below);
}

function within(text, most, otherwise) {
    const n = Number(text);
    return text !== undefined && Number.isInteger(n) && n >= 0 && n <= most ? n : otherwise;
}

function nameOf(text) {
    try {
        return decodeURIComponent(text);
    } catch (e) {
        return "";
    }
}

function readAddress() {
    const parts = Object.fromEntries(location.hash.slice(1).split("&").map(part => part.split("=")));
    const plan = within(parts.plan, data.plans.length - 1, data.plans.length - 1);
    const number = data.plans[plan].graphs.findIndex(graph => graph.name === nameOf(parts.graph || ""));
    showGraph(plan, number >= 0 ? number : firstGraph(plan));
    state.pass = within(parts.pass, g.last, g.last);
    state.step = within(parts.step, g.steps - 1, state.step);
    if (shownTabs().some(tab => tab.id === parts.tab)) state.tab = parts.tab;
    if (TABLES[parts.table]) state.table = parts.table;
    if (parts.open !== undefined || parts.view !== undefined)
        state.open = new Set(numbersOf(parts.open, g.scopes.count));
    state.loose = new Set(numbersOf(parts.loose, g.scopes.count));
    state.keepPlaces = parts.places === "1";
    state.selection = parts.sel ? selectionOf(parts.sel) : null;
    const node = selectedNode();
    if (node >= 0 && parts.open === undefined) reveal(g.nodes.scope[node]);
    state.isAwaited = state.selection !== null && parts.view === undefined;
    const view = (parts.view || "").split(",").map(Number);
    address.view =
        view.length === 3 && view.every(Number.isFinite) && view[2] >= SMALLEST && view[2] <= LARGEST ? view
                                                                                                      : null;
}

/* A training graph says most. */
function firstGraph(plan) {
    return Math.max(0, data.plans[plan].graphs.findIndex(graph => graph.mode === "train"));
}

/* The part of the picture that a link asks for, once it is laid out. */
function takeView() {
    if (!address.view) return;
    [camera.x, camera.y, camera.k] = address.view;
    address.view = null;
}

function listenAddress() {
    addEventListener("hashchange", () => {
        if (location.hash === address.written) return;
        readAddress();
        address.isRead = true;
        change("all");
    });
}
