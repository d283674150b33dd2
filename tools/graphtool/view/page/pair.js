/* pair.js - where the page has two plans: what of the one that was shown is what of the other. Nodes are pairs
 * as the difference has them; scopes, parameters and buckets are by path. */

/* The other graph's number of what has the same text in a column; -1: there is none. */
function sameText(from, to, i) {
    return i < 0 ? -1 : to.indexOf(from[i]);
}

/* {first to second, second to first} of the shown graphs; null: the data have no pairs of them. */
function pairsOf(before) {
    const graphs = data.difference && data.difference.graphs || [];
    const entry =
        graphs.find(e => e.graphs[before.plan] === before.graph && e.graphs[state.plan] === state.graph);
    if (!entry || before.plan === state.plan) return null;
    if (!entry.there) {
        entry.there = column(entry.pairs);
        entry.back = new Float64Array(graphOf(1, entry.graphs[1]).count).fill(-1);
        entry.there.forEach((other, i) => {
            if (other >= 0) entry.back[other] = i;
        });
    }
    return before.plan === 0 ? entry.there : entry.back;
}

/* Nodes that do not run are in no pair: they are found by scope and name. */
function pairOfNode(before, i) {
    const pairs = pairsOf(before), old = before.g;
    if (pairs && old.nodes.last[i] === old.last) return pairs[i] ?? -1;
    const scope = sameText(old.scopes.path, g.scopes.path, old.nodes.scope[i]), name = nodeName(old, i);
    if (scope < 0) return -1;
    for (let j = 0; j < g.count; j++)
        if (g.nodes.scope[j] === scope && nodeName(g, j) === name) return j;
    return -1;
}

function pairOfValue(before, v) {
    const i = before.g.values.node[v], j = pairOfNode(before, i);
    const w = j < 0 ? -1 : g.results.at[j] + v - before.g.results.at[i];
    return w >= 0 && w < g.results.at[j + 1] ? w : -1;
}

function pairOfSelection(before, {kind, id}) {
    const old = planOf(before.plan), plan = planOf(state.plan);
    const numbers = {
        node: () => pairOfNode(before, id),
        value: () => pairOfValue(before, id),
        scope: () => sameText(before.g.scopes.path, g.scopes.path, id),
        parameter: () => sameText(old.parameters.path, plan.parameters.path, id),
        bucket: () => sameText(old.buckets.name, plan.buckets.name, id),
        op: () => id,
    };
    const other = numbers[kind]();
    return other < 0 ? null : {kind, id: other};
}

function pairsOfScopes(before, set) {
    return new Set([...set].map(s => sameText(before.g.scopes.path, g.scopes.path, s)).filter(s => s >= 0));
}

/* A pass of the same name; what runs stays what runs. */
function pairOfPass(before, pass) {
    if (pass === before.g.last) return g.last;
    const at = g.passes.lastIndexOf(before.g.passes[pass]);
    return at < 0 ? g.last : at;
}

function placeOfSelection() {
    const b = [...lit.boxes][0];
    return b === undefined ? null : {x: layout.x[b], y: layout.y[b]};
}

/* Another plan with the same selection, opened scopes, pass and zoom, as far as it has them; what is selected
 * stays where it is on the screen. */
function showOther(plan, number) {
    const before = {...state, g}, place = placeOfSelection(), {x, y, k} = camera;
    showGraph(plan, number);
    if (g.name !== before.g.name) return change("all");
    state.pass = pairOfPass(before, before.pass);
    state.open = pairsOfScopes(before, before.open);
    state.loose = pairsOfScopes(before, before.loose);
    state.selection = before.selection && pairOfSelection(before, before.selection);
    const node = selectedNode();
    if (node >= 0 && g.nodes.step[node] >= 0) state.step = g.nodes.step[node];
    findBoxes();
    findLayout();
    findLit();
    const now = place && placeOfSelection();
    if (k > 0) address.view = now ? [x + (place.x - now.x) * k, y + (place.y - now.y) * k, k] : [x, y, k];
    change("all");
}

/* The graph of the same name in the other plan, or its first. */
function showPlan(plan) {
    const name = g.name, at = data.plans[plan].graphs.findIndex(graph => graph.name === name);
    showOther(plan, Math.max(0, at));
}
