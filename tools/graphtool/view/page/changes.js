/* changes.js - where the page has two plans: what one has and the other has not, in the picture and as a
 * list. Plan 0 is A, plan 1 is B. */
const CHANGE_WORDS = {
    added: "added in B",
    removed: "only in A",
    changed: "changed"
};

/* By node of the shown graph: the number of its change. */
function changesOfGraph() {
    if (g.changes) return g.changes;
    g.changes = new Map();
    const all = data.difference ? data.difference.changes : [];
    all.forEach((c, at) => {
        if (c.graphs[state.plan] === state.graph && c.nodes[state.plan] >= 0)
            g.changes.set(c.nodes[state.plan], at);
    });
    return g.changes;
}

function changeOfNode(i) {
    const at = changesOfGraph().get(i);
    return at === undefined ? null : data.difference.changes[at];
}

function changeTextOf(i) {
    const c = changeOfNode(i);
    return c ? CHANGE_WORDS[c.kind] + (c.text ? ": " + c.text : "") : "";
}

/* Scopes that hold changed nodes, by phase, as boxes. */
function changedScopes() {
    if (g.changedScopes) return g.changedScopes;
    g.changedScopes = new Set();
    for (const i of changesOfGraph().keys())
        for (let s = g.nodes.scope[i]; s > 0; s = g.scopes.parent[s])
            for (const shown of [s, g.scopes.same[s]]) g.changedScopes.add(scopeBox(shown, g.nodes.phase[i]));
    return g.changedScopes;
}

/* By scope: whether this plan has it alone: all its nodes that run are. */
function ownScopes() {
    if (g.ownScopes) return g.ownScopes;
    const own = new Float64Array(g.scopes.count), all = new Float64Array(g.scopes.count);
    for (let i = 0; i < g.count; i++) {
        if (g.nodes.last[i] !== g.last) continue;
        const c = changeOfNode(i), isOwn = c !== null && c.kind !== "changed";
        for (let s = g.nodes.scope[i]; s > 0; s = g.scopes.parent[s]) {
            all[s]++;
            own[s] += isOwn;
        }
    }
    g.ownScopes = own.map((n, s) => n > 0 && n === all[s] ? 1 : 0);
    return g.ownScopes;
}

/* "added", "removed", "changed" or "". A closed scope is changed if something in it is. */
function changeOfBox(b) {
    if (!data.difference) return "";
    if (isScopeBox(b) && scopeOfBox(b) && ownScopes()[scopeOfBox(b)])
        return state.plan === 1 ? "added" : "removed";
    if (isScopeBox(b)) return !isOpen(scopeOfBox(b)) && changedScopes().has(b) ? "changed" : "";
    const c = changeOfNode(b);
    return c ? c.kind : "";
}

/* The plan that shows a change: B, or A where B has not got it. */
function planOfChange(c) {
    return c.nodes && c.nodes[1] < 0 && c.nodes[0] >= 0 ? 0 : 1;
}

function showChange(at) {
    const c = data.difference.changes[at], plan = planOfChange(c);
    if (!c.nodes || c.nodes[plan] < 0) return;
    if (state.plan !== plan || state.graph !== c.graphs[plan]) showOther(plan, c.graphs[plan]);
    state.tab = "graph";
    select("node", c.nodes[plan]);
}

/* ---- the list ---- */

/* At first in the order of the data: by -1. */
const CHANGE_COLUMNS = [["where"], ["change"], ["what"], ["op"], ["graph"], ["how"]];
const listed = {
    sorted: {by: -1, isUp: true, page: 0},
    follows: false
};

function graphNameOf(c) {
    const plan = c.graphs[1] >= 0 ? 1 : 0;
    return c.graphs[plan] < 0 ? "" : data.plans[plan].graphs[c.graphs[plan]].name;
}

function changeRows() {
    const rows = [], chosen = state.selection && state.selection.kind === "node"
                                  ? changesOfGraph().get(state.selection.id)
                                  : -1;
    data.difference.changes.forEach((c, at) => {
        if (c.follows && !listed.follows) return;
        rows.push({
            key: "c" + at,
            isLit: at === chosen,
            cells: [
                c.path, CHANGE_MARKS[c.kind] + " " + CHANGE_WORDS[c.kind], c.what, c.op || "", graphNameOf(c),
                c.text || ""
            ]
        });
    });
    return rows;
}

function drawChanges() {
    const all = data.difference.changes, follow = all.filter(c => c.follows).length;
    const title = all.length ? countText(all.length - follow, "change") + " from A, " + data.plans[0].name +
                                   ", to B, " + data.plans[1].name
                             : "A and B are equal.";
    const made = [element("h3", {}, title)];
    if (follow) {
        const box = element("input", {type: "checkbox", id: "follows"});
        box.checked = listed.follows;
        made.push(element("label", {class: "quiet"}, box,
                          " and " + follow.toLocaleString("en") + " that only follow from these"));
    }
    if (all.length) made.push(...pagedTable(CHANGE_COLUMNS, changeRows(), listed.sorted, "Changes"));
    byId("changes").replaceChildren(element("h3", {}, "Summary"), ...summary(), ...made);
}

function listenChanges() {
    byId("changes").addEventListener("click", e => {
        const row = e.target.closest("[data-select]"), peak = e.target.closest("[data-peak]");
        if (peak) showPeak(peak.getAttribute("data-peak"));
        else if (row) showChange(Number(row.getAttribute("data-select").slice(1)));
        else turnTable(e, CHANGE_COLUMNS, listed.sorted);
    });
    byId("changes").addEventListener("change", e => {
        listed.follows = e.target.checked;
        change("lit");
    });
}
