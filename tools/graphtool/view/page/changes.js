/* changes.js - where the page has two plans: what one has and the other has not, in the picture and as a list. Plan 0 is A,
 * plan 1 is B. */
const CHANGE_WORDS = {added: "added in B", removed: "only in A", changed: "changed"};

/* By node of the shown graph: the number of its change. */
function changesOfGraph() {
    if (g.changes) return g.changes;
    g.changes = new Map();
    const all = data.difference ? data.difference.changes : [];
    all.forEach((c, at) => {
        if (c.graphs[state.plan] === state.graph && c.nodes[state.plan] >= 0) g.changes.set(c.nodes[state.plan], at);
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
        for (let s = g.nodes.scope[i]; s > 0; s = g.scopes.parent[s]) g.changedScopes.add(scopeBox(s, g.nodes.phase[i]));
    return g.changedScopes;
}

/* "added", "removed", "changed" or "". A closed scope is changed if something in it is. */
function changeOfBox(b) {
    if (!data.difference) return "";
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
    if (state.plan !== plan || state.graph !== c.graphs[plan]) {
        showGraph(plan, c.graphs[plan]);
        change("all");
    }
    state.tab = "graph";
    select("node", c.nodes[plan]);
}

function drawChanges() {
    const all = data.difference ? data.difference.changes : [], body = element("tbody");
    all.forEach((c, at) => {
        const name = c.path || c.what, isNode = c.nodes && c.nodes[planOfChange(c)] >= 0;
        body.append(element("tr", {}, element("td", {class: c.kind}, CHANGE_MARKS[c.kind] + " " + CHANGE_WORDS[c.kind]), element("td", {}, c.what),
            element("td", {}, isNode ? element("button", {type: "button", class: "link", "data-change": at}, name) : name), element("td", {}, c.text || "")));
    });
    byId("changes").replaceChildren(
        element("h3", {}, all.length ? countText(all.length, "change") + " from A, " + data.plans[0].name + ", to B, " + data.plans[1].name : "A and B are equal."),
        element("table", {"aria-label": "Changes"}, headOf([["kind"], ["what"], ["where"], ["how"]]), body));
}

function listenChanges() {
    byId("changes").addEventListener("click", e => {
        const from = e.target.closest("[data-change]");
        if (from) showChange(Number(from.getAttribute("data-change")));
    });
}
