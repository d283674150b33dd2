/* data.js - the plan as the C side wrote it: columns of numbers, one entry per node, value, scope. Text is a
 * number into `texts`; -1 is "no such". Columns may be written as runs or differences; only column() knows. */
const data = JSON.parse(document.getElementById("weft-data").textContent);
const texts = data.texts;
const FORWARD = 0, BACKWARD = 1, UPDATE = 2, PHASES = 3;
const PHASE_NAMES = ["forward", "backward", "update"];

/* Numbers up to 2^53, as bytes may be: doubles. */
function column(c) {
    if (Array.isArray(c)) return new Float64Array(c);
    if (c.delta) {
        const all = new Float64Array(c.delta);
        for (let i = 1; i < all.length; i++) all[i] += all[i - 1];
        return all;
    }
    let n = 0;
    for (let i = 1; i < c.runs.length; i += 2) n += c.runs[i];
    const all = new Float64Array(n);
    for (let i = 0, at = 0; i < c.runs.length; i += 2) {
        all.fill(c.runs[i], at, at + c.runs[i + 1]);
        at += c.runs[i + 1];
    }
    return all;
}

function columns(table) {
    const all = {};
    for (const name of Object.keys(table)) all[name] = column(table[name]);
    return all;
}

/* Lists of lists: those of key k are list[at[k]] .. list[at[k + 1] - 1], in the order of the items. */
function grouped(keys, n, count) {
    const at = new Float64Array(n + 1), list = new Float64Array(count);
    for (let i = 0; i < count; i++)
        if (keys[i] >= 0) at[keys[i] + 1]++;
    for (let k = 0; k < n; k++) at[k + 1] += at[k];
    const next = at.slice();
    for (let i = 0; i < count; i++)
        if (keys[i] >= 0) list[next[keys[i]]++] = i;
    return {at, list};
}

function listOf(groups, key) {
    return groups.list.subarray(groups.at[key], groups.at[key + 1]);
}

/* Scopes with their parents first, how deep each lies, how many are equal to it. */
function orderScopes(scopes) {
    const n = scopes.parent.length, below = grouped(scopes.parent, n, n);
    scopes.count = n;
    scopes.below = below;
    scopes.depth = new Float64Array(n);
    scopes.order = [0];
    for (let i = 0; i < scopes.order.length; i++)
        for (const child of listOf(below, scopes.order[i])) {
            scopes.depth[child] = scopes.depth[scopes.order[i]] + 1;
            scopes.order.push(child);
        }
    scopes.copies = new Float64Array(n);
    scopes.ordinal = new Float64Array(n); // among equal ones
    for (let s = 0; s < n; s++) scopes.ordinal[s] = scopes.copies[scopes.same[s]]++;
}

/* Operands as one list, those of earlier passes after the others: who reads what, at which place, in which
 * passes. */
function listReads(g, earlier) {
    const m = g.inputs.value.length, k = earlier.node.length, n = g.nodes.op.length;
    const reads = {};
    for (const name of ["node", "place", "value", "first", "last"]) reads[name] = new Float64Array(m + k);
    for (let i = 0; i < n; i++)
        for (let e = g.inputs.at[i]; e < g.inputs.at[i + 1]; e++) {
            reads.node[e] = i;
            reads.place[e] = e - g.inputs.at[i];
            reads.last[e] = g.nodes.last[i];
        }
    reads.value.set(g.inputs.value);
    reads.first.set(g.inputs.since);
    for (const name of Object.keys(reads)) reads[name].set(earlier[name], m);
    g.reads = reads;
    g.operands = grouped(reads.node, n, m + k);
    g.uses = grouped(reads.value, g.values.node.length, m + k);
}

/* What is looked up often, made once: who reads a value, the nodes of a scope and phase. */
function index(g) {
    const n = g.count = g.nodes.op.length, values = g.values.node.length;
    orderScopes(g.scopes);
    const place = new Float64Array(n);
    for (let i = 0; i < n; i++) place[i] = g.nodes.phase[i] * g.scopes.count + g.nodes.scope[i];
    g.own = grouped(place, PHASES * g.scopes.count, n);
    g.root = new Float64Array(values); // the value whose buffer it is
    for (let v = 0; v < values; v++) {
        let r = v;
        while (g.values.base[r] >= 0) r = g.values.base[r];
        g.root[v] = r;
    }
    g.sharers = grouped(g.root, values, values);
    g.last = g.passes.length - 1;
    g.steps = 1 + g.nodes.step.reduce((most, step) => Math.max(most, step), 0);
}

/* A graph, decoded when it is first asked for. */
function graphOf(plan, number) {
    const g = data.plans[plan].graphs[number];
    if (g.ready) return g;
    const {earlier} = g.inputs;
    delete g.inputs.earlier;
    for (const name of ["nodes", "values", "inputs", "results", "workspaces", "outputs", "scopes", "layout"])
        g[name] = columns(g[name]);
    listReads(g, columns(earlier));
    index(g);
    g.ready = true;
    return g;
}

function planOf(number) {
    const p = data.plans[number];
    if (!p.ready) {
        p.parameters = columns(p.parameters);
        p.buckets = columns(p.buckets);
        p.ready = true;
    }
    return p;
}
