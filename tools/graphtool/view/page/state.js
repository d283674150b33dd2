/* state.js - what the page shows, in one place. What changes it calls change(), and all views draw
 * themselves again in the next frame. The part that a link keeps is in link.js. */
const state = {
    plan: 0,
    graph: 0, // number in the plan
    pass: 0,  // the state of passes that is shown
    tab: "graph",
    table: "ops",
    open: new Set(),     // scopes whose content is shown, besides the root
    loose: new Set(),    // first scopes of equal ones that are shown one by one
    selection: null,     // {kind, id}: see select.js
    start: -1,           // the node from which a path begins
    path: [],            // nodes of the path that is shown
    step: 0,             // of the schedule, in the memory map
    keepPlaces: false,   // rooms of nodes that other passes have stay empty
    choosesPlaces: true, // moving the slider sets keepPlaces, until a person does
    hasPanel: true,
};
let g = null;     // the graph that is shown
const views = []; // {tab, draw}: those of the open tab are drawn; tab "" is always open
let awaited = 0, wanted = new Set();

/* what: "boxes" where other boxes are drawn, "lit" where only the selection changed, "all". */
function change(what) {
    wanted.add(what);
    if (!awaited) awaited = requestAnimationFrame(redraw);
}

function redraw() {
    const what = wanted;
    awaited = 0;
    wanted = new Set();
    for (const view of views)
        if (!view.tab || view.tab === state.tab) view.draw(what);
}

/* Whether the slider is at what runs: kernels, steps, times and memory are of that alone. */
function isLastPass() {
    return state.pass === g.last;
}

function exists(i) {
    return g.nodes.first[i] <= state.pass && state.pass <= g.nodes.last[i];
}

function showGraph(plan, number) {
    state.plan = plan;
    state.graph = number;
    g = graphOf(plan, number);
    state.pass = g.last;
    state.step = Math.max(0, g.peak_step);
    state.open = new Set();
    state.loose = new Set();
    state.selection = null;
    state.start = -1;
    state.path = [];
    openFirst();
}

/* At first, a scope that holds most of the graph is opened, and so on within it, as long as what then is
 * drawn is little. */
const MOST_AT_FIRST = 60;

function openFirst() {
    for (let at = 0; at >= 0;) {
        let drawn = 0;
        for (let p = 0; p < PHASES; p++) drawn += listOf(g.own, p * g.scopes.count + at).length;
        const inside = listOf(g.scopes.below, at).filter(s => g.scopes.same[s] === s);
        if (at && drawn + inside.length > MOST_AT_FIRST) return;
        if (at) state.open.add(at);
        at = inside.find(s => g.scopes.nodes[s] > g.count / 2) ?? -1;
    }
}
