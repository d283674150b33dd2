/* select.js - what is selected, in every view. A selection is a kind and a number:
 *   node n, value v, scope s, parameter p, bucket b, op (a number into texts).
 * `lit` is what that means for the views: nodes, buffers, boxes. */
const KINDS = {
    n: "node",
    v: "value",
    s: "scope",
    p: "parameter",
    b: "bucket",
    o: "op"
};
const lit = {
    nodes: null,
    buffers: null,
    boxes: new Set(),
    near: new Set(),
    steps: new Set()
};

function select(kind, id) {
    state.selection = kind ? {kind, id} : null;
    if (kind && state.path.length && !(kind === "node" && state.path.includes(id))) state.path = [];
    if (kind) showSelection();
    change("lit");
}

/* "n12" as a selection of node 12; null where the graph has none. */
function selectionOf(text) {
    const kind = KINDS[text[0]], id = Number(text.slice(1));
    const limits = {
        node: g.count,
        value: g.values.node.length,
        scope: g.scopes.count,
        op: texts.length,
        parameter: planOf(state.plan).parameters.path.length,
        bucket: planOf(state.plan).buckets.name.length
    };
    return kind && Number.isInteger(id) && id >= 0 && id < limits[kind] ? {kind, id} : null;
}

function textOfSelection(selection) {
    return selection ? selection.kind[0] + selection.id : "";
}

/* Whether node i belongs to the selection. */
function nodeTest(selection) {
    const {kind, id} = selection;
    switch (kind) {
    case "node":
        return i => i === id;
    case "value":
        return i => i === g.values.node[id];
    case "scope":
        return i => isWithin(g, g.nodes.scope[i], id);
    case "parameter":
        return i => g.nodes.parameter[i] === id;
    case "bucket":
        return i => g.nodes.bucket[i] === id;
    default:
        return i => g.nodes.op[i] === id;
    }
}

function findLit() {
    lit.nodes = new Uint8Array(g.count);
    lit.buffers = new Uint8Array(g.values.node.length);
    lit.boxes = new Set();
    lit.near = new Set();
    lit.steps = new Set();
    if (state.selection) lightSelection(state.selection);
    for (let at = 1; at < state.path.length; at++)
        lit.steps.add(boxOfNode(state.path[at - 1]) + ":" + boxOfNode(state.path[at]));
    for (const i of state.path) lit.near.add(boxOfNode(i));
}

function lightSelection(selection) {
    const belongs = nodeTest(selection), {kind, id} = selection;
    for (let i = 0; i < g.count; i++) {
        if (!belongs(i)) continue;
        lit.nodes[i] = 1;
        if (kind !== "value")
            for (const v of resultsOf(g, i)) lit.buffers[g.root[v]] = 1;
        if (exists(i) && kind !== "scope") lit.boxes.add(boxOfNode(i));
    }
    if (kind === "value") lit.buffers[g.root[id]] = 1;
    if (kind === "scope") lightScope(id);
    if ((kind === "node" || kind === "value") && !state.path.length)
        lightNeighbours(kind === "node" ? id : g.values.node[id]);
}

/* The boxes of a scope; where it lies in a closed one, those of that. */
function lightScope(s) {
    const holder = boxes.holder[s] < 0 ? s : boxes.holder[s];
    for (let p = 0; p < PHASES; p++)
        if (boxes.alive[p * g.scopes.count + holder]) lit.boxes.add(scopeBox(holder, p));
}

function lightNeighbours(i) {
    for (const v of operandsOf(g, i))
        if (exists(g.values.node[v])) lit.near.add(boxOfNode(g.values.node[v]));
    for (const v of resultsOf(g, i))
        for (const reader of readersOf(g, v)) lit.near.add(boxOfNode(reader));
}

/* Opens the picture where the selection is. A node that the shown pass lacks moves the slider to one that
 * has it. */
function showSelection() {
    const {kind, id} = state.selection;
    const node = kind === "node" ? id : kind === "value" ? g.values.node[id] : -1;
    if (node >= 0) {
        if (!exists(node))
            state.pass = Math.max(g.nodes.first[node], Math.min(state.pass, g.nodes.last[node]));
        if (g.nodes.step[node] >= 0) state.step = g.nodes.step[node];
    }
    const first = kind === "parameter" ? g.nodes.parameter.findIndex((p, i) => p === id && exists(i)) : node;
    const scope = first >= 0 ? g.nodes.scope[first] : kind === "scope" ? g.scopes.parent[id] : -1;
    state.isAwaited = true;
    if (scope < 0) return;
    const isHidden = boxes.holder && boxes.holder[scope] >= 0;
    if (kind === "scope" && g.scopes.same[id] !== id && !state.loose.has(g.scopes.same[id]))
        state.loose.add(g.scopes.same[id]);
    reveal(scope);
    if (isHidden || first >= 0) change("boxes");
}

/* After the boxes are drawn: brings the selection into the window. */
function followSelection() {
    if (!state.isAwaited || state.tab !== "graph") return;
    state.isAwaited = false;
    const b = [...lit.boxes][0];
    if (b !== undefined) {
        picture.current = b;
        showBox(b);
    }
}

/* Opens or closes a scope; the box that was clicked stays where it is on the screen. */
function toggle(b) {
    const s = scopeOfBox(b), before = {x: layout.x[b], y: layout.y[b]};
    if (s === 0) return;
    if (state.open.has(s)) state.open.delete(s);
    else state.open.add(s);
    picture.current = b;
    findBoxes();
    findLayout();
    camera.x += (before.x - layout.x[b]) * camera.k;
    camera.y += (before.y - layout.y[b]) * camera.k;
    change("boxes");
}

/* Everything with data-select selects, in all views; [data-box] are boxes of the picture. */
function listenSelect() {
    document.addEventListener("click", e => {
        const from = e.target.closest("[data-select]"), box = e.target.closest("[data-box]");
        const sign = e.target.closest("[data-toggle]");
        if (sign) toggle(Number(sign.getAttribute("data-toggle")));
        else if (from) selectText(from.getAttribute("data-select"));
        else if (box) selectBox(Number(box.getAttribute("data-box")));
        else if (e.target.id === "picture") select(null);
    });
    byId("picture").addEventListener("dblclick", e => {
        const box = e.target.closest("[data-box]");
        if (box && isScopeBox(Number(box.getAttribute("data-box"))) && !e.target.closest("[data-toggle]"))
            toggle(Number(box.getAttribute("data-box")));
    });
}

function selectText(text) {
    const selection = selectionOf(text);
    if (selection) select(selection.kind, selection.id);
}

function selectBox(b) {
    picture.current = b;
    if (isScopeBox(b)) {
        if (scopeOfBox(b)) select("scope", scopeOfBox(b));
        if (isFrame(b)) state.isAwaited = false; // it is seen already: the picture stays
    } else {
        select("node", b);
    }
}
