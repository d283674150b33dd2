/* link.js - what a link keeps, after the # of the address:
 * #plan=0&graph=train&pass=3&tab=graph&open=2.5&sel=n12&view=x,y,k. The address follows what is shown; an
 * address that changes is shown. A part that does not fit the plan is left out. */
const address = {
    written: "",
    timer: 0
};

function listText(set) {
    return [...set].sort((a, b) => a - b).join(".");
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
        view: camera.k === 0
                  ? ""
                  : [camera.x.toFixed(0), camera.y.toFixed(0), Number(camera.k.toPrecision(4))].join(",")
    };
    if (data.plans.length > 1) parts.plan = state.plan;
    if (!state.keepPlaces) parts.places = 0;
    return "#" +
           Object.keys(parts).filter(key => parts[key] !== "").map(key => key + "=" + parts[key]).join("&");
}

/* After a pause, as a drag changes it with each frame. */
function writeAddress() {
    clearTimeout(address.timer);
    address.timer = setTimeout(() => {
        address.written = addressText();
        history.replaceState(null, "", address.written);
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
    state.keepPlaces = parts.places !== "0";
    state.selection = parts.sel ? selectionOf(parts.sel) : null;
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
        change("all");
    });
}
