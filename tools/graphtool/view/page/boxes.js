/* boxes.js - which boxes are drawn: a node, or a scope in one phase. A closed scope stands for all below it;
 * equal siblings are drawn once, by the first, unless they are "loose". An edge is drawn between the boxes
 * that stand for its ends. A box is a number: that of a node, or count + phase * scopes + scope. */
const boxes = {
    holder: null,  // by scope: the scope whose box stands for its nodes, or -1: each has its own
    isDrawn: null, // by scope: whether it has boxes of its own, open or closed
    alive: null,   // by phase * scopes + scope: nodes of the shown pass below it
    us: null,      // the same, their time
    from: [],      // drawn edges, as boxes
    to: [],
    outward: null, // edges by box
    inward: null,
    placing: null, // the edges that say where boxes are
};

function scopeBox(s, phase) {
    return g.count + phase * g.scopes.count + s;
}

function isScopeBox(b) {
    return b >= g.count;
}

function scopeOfBox(b) {
    return (b - g.count) % g.scopes.count;
}

function phaseOfBox(b) {
    return isScopeBox(b) ? Math.floor((b - g.count) / g.scopes.count) : g.nodes.phase[b];
}

/* The scope that a box lies in; -1: the box is the root. */
function parentOfBox(b) {
    return isScopeBox(b) ? g.scopes.parent[scopeOfBox(b)] : g.nodes.scope[b];
}

function isOpen(s) {
    return s === 0 || state.open.has(s);
}

function findHolders() {
    const {count, order, parent, same} = g.scopes;
    boxes.holder = new Float64Array(count).fill(-1);
    boxes.isDrawn = new Uint8Array(count);
    for (const s of order) {
        const up = parent[s];
        if (up >= 0 && boxes.holder[up] >= 0) {
            boxes.holder[s] = boxes.holder[up];
            continue;
        }
        const isStacked = same[s] !== s && !state.loose.has(same[s]);
        boxes.isDrawn[s] = isStacked ? 0 : 1;
        boxes.holder[s] = isStacked ? same[s] : isOpen(s) ? -1 : s;
    }
}

function countAlive() {
    const {count, order, parent} = g.scopes;
    boxes.alive = new Float64Array(PHASES * count);
    boxes.us = new Float64Array(PHASES * count);
    for (let i = 0; i < g.count; i++) {
        if (!exists(i)) continue;
        boxes.alive[g.nodes.phase[i] * count + g.nodes.scope[i]]++;
        boxes.us[g.nodes.phase[i] * count + g.nodes.scope[i]] += Math.max(0, g.nodes.us[i]);
    }
    for (let at = order.length - 1; at > 0; at--)
        for (const sums of [boxes.alive, boxes.us])
            for (let p = 0; p < PHASES; p++)
                sums[p * count + parent[order[at]]] += sums[p * count + order[at]];
}

function boxOfNode(i) {
    const holder = boxes.holder[g.nodes.scope[i]];
    return holder < 0 ? i : scopeBox(holder, g.nodes.phase[i]);
}

/* An open scope that stands for its copies has edges of theirs at its frame, except to what it holds itself. */
function isFrameOf(b, node) {
    return isScopeBox(b) && isOpen(scopeOfBox(b)) && isWithin(g, g.nodes.scope[node], scopeOfBox(b));
}

/* Edges between boxes, {from, to, weight}: those of the shown pass, or of all passes, whose boxes keep their
 * places. What runs has most weight there. */
const PASSED = 0.001;

function edgesOf(isOfPass) {
    const seen = new Set(), all = g.count + PHASES * g.scopes.count, edges = {from: [], to: [], weight: []};
    for (let e = 0; e < g.reads.node.length; e++) {
        const i = g.reads.node[e], j = g.values.node[g.reads.value[e]];
        if (isOfPass && !(isRead(g, e) && exists(i) && exists(j))) continue;
        const from = boxOfNode(j), to = boxOfNode(i), key = from * all + to;
        if (from === to || isFrameOf(from, i) || isFrameOf(to, j)) continue;
        if (isScopeBox(from) || isScopeBox(to)) { // others are few for each pair
            if (seen.has(key)) continue;
            seen.add(key);
        }
        edges.from.push(from);
        edges.to.push(to);
        edges.weight.push(isOfPass || g.reads.last[e] === g.last ? 1 : PASSED);
    }
    return edges;
}

function findEdges() {
    const all = g.count + PHASES * g.scopes.count, edges = edgesOf(true);
    boxes.from = edges.from;
    boxes.to = edges.to;
    boxes.outward = grouped(boxes.from, all, boxes.from.length);
    boxes.inward = grouped(boxes.to, all, boxes.to.length);
    boxes.placing = state.keepPlaces && g.last > 0 ? edgesOf(false) : edges;
}

function findBoxes() {
    findHolders();
    countAlive();
    findEdges();
}

/* Opens what lies around a node or a scope, so that it has a box of its own. */
function reveal(scope) {
    for (let s = scope; s > 0; s = g.scopes.parent[s]) {
        state.open.add(s);
        if (g.scopes.same[s] !== s) state.loose.add(g.scopes.same[s]);
    }
}
