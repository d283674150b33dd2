/* walk.js - questions about a graph: operands and readers of a node, a path, who keeps a buffer alive. */
function isRead(g, e) {
    return g.reads.first[e] <= state.pass && state.pass <= g.reads.last[e];
}

/* Values, in the pass that is shown. */
function operandsOf(g, i) {
    const reads = [...listOf(g.operands, i)].filter(e => isRead(g, e));
    return reads.sort((a, b) => g.reads.place[a] - g.reads.place[b]).map(e => g.reads.value[e]);
}

function resultsOf(g, i) {
    const all = [];
    for (let v = g.results.at[i]; v < g.results.at[i + 1]; v++) all.push(v);
    return all;
}

/* Nodes that read value v, each once, in the pass that is shown. */
function readersOf(g, v) {
    const all = new Set();
    for (const e of listOf(g.uses, v))
        if (isRead(g, e) && exists(g.reads.node[e])) all.add(g.reads.node[e]);
    return [...all];
}

/* The shortest path from node a to node b along data, as nodes; empty where there is none. */
function pathBetween(g, a, b) {
    const from = new Float64Array(g.count).fill(-1), queue = [a];
    from[a] = a;
    for (let at = 0; at < queue.length && from[b] < 0; at++)
        for (const v of resultsOf(g, queue[at]))
            for (const reader of readersOf(g, v))
                if (from[reader] < 0) {
                    from[reader] = queue[at];
                    queue.push(reader);
                }
    if (from[b] < 0) return [];
    const path = [b];
    while (path[path.length - 1] !== a) path.push(from[path[path.length - 1]]);
    return path.reverse();
}

/* Who keeps the buffer of value v: the values in it, and the nodes that read or write them at the latest
 * step. */
function keepersOf(g, v) {
    const root = g.root[v], values = [...listOf(g.sharers, root)];
    let last = -1;
    const nodes = new Set();
    for (const value of values)
        for (const node of [g.values.node[value], ...readersOf(g, value)]) {
            if (g.nodes.step[node] > last) {
                last = g.nodes.step[node];
                nodes.clear();
            }
            if (g.nodes.step[node] === last) nodes.add(node);
        }
    return {root, values, last, nodes: [...nodes]};
}

/* Buffers that are needed at a step, the largest first. */
function aliveAt(g, step) {
    const alive = [];
    for (let v = 0; v < g.values.node.length; v++)
        if (isBuffer(g, v) && g.values.from[v] <= step && step <= g.values.until[v]) alive.push(v);
    return alive.sort((a, b) => g.values.bytes[b] - g.values.bytes[a]);
}

/* Whether v is the value that a buffer of the arena is named after. */
function isBuffer(g, v) {
    return g.values.base[v] < 0 && g.values.offset[v] >= 0 && g.values.until[v] >= 0;
}

/* Whether scope s is, or lies in, scope `above`. */
function isWithin(g, s, above) {
    while (s >= 0 && g.scopes.depth[s] > g.scopes.depth[above]) s = g.scopes.parent[s];
    return s === above;
}
