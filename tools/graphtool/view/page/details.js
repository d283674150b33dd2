/* details.js - the panel beside the views: all that is known of the selection, and questions about it. */
function addRow(list, name, ...what) {
    const said = what.filter(w => w !== "" && w !== undefined);
    if (!said.length) return;
    list.append(element("dt", TIPS.has(name) ? {title: TIPS.get(name)} : {}, name),
                element("dd", {}, ...said));
}

/* A heading and a list of at most `most` items, each as lineOf() has it. */
function section(name, items, lineOf, most) {
    if (!items.length) return [];
    const list = element("ul", {}, ...items.slice(0, most).map(item => element("li", {}, lineOf(item))));
    if (items.length > most)
        list.append(element("li", {class: "quiet"}, "and " + (items.length - most) + " more"));
    return [element("h3", {}, name), list];
}

function button(does, text) {
    return element("button", {type: "button", "data-do": does}, text);
}

/* ---- values ---- */

function valueLine(v) {
    const i = g.values.node[v];
    return element("span", {}, link("v", v, texts[g.values.name[v]]), " " + texts[g.values.type[v]] + " of ",
                   link("n", i, (texts[g.nodes.op[i]] + " " + ownName(g, i)).trim()));
}

function nodeLine(i) {
    const scope = texts[g.scopes.path[g.nodes.scope[i]]];
    return element("span", {}, link("n", i, nodeName(g, i)),
                   scope ? element("span", {class: "quiet"}, " " + scope) : "");
}

function outputNames(v) {
    const names = [];
    for (let o = 0; o < g.outputs.value.length; o++)
        if (g.outputs.value[o] === v) names.push(texts[g.outputs.name[o]]);
    return names.join(", ");
}

/* "Who keeps this buffer alive?" Of what runs: readers of earlier passes keep nothing. */
function keepersOfBuffer(v) {
    if (!isLastPass()) return [];
    const keepers = keepersOf(g, v), root = keepers.root;
    if (g.values.until[root] < 0) return [];
    const others = keepers.values.filter(value => value !== v);
    const outlives = keepers.last < g.values.until[root];
    const outputs = keepers.values.map(outputNames).filter(names => names).map(names => "output " + names);
    const kept = !outlives        ? keepers.nodes
                 : outputs.length ? outputs
                                  : ["what outlives the reads of its values"];
    const end = outlives && outputs.length ? "the end of the run" : "step " + g.values.until[root];
    return [
        ...section("Kept alive until " + end + " by", kept, outlives ? text => text : nodeLine, 20),
        ...section("Values in the same buffer", others, valueLine, 30)
    ];
}

function addBuffer(list, v) {
    const root = g.root[v];
    addRow(list, "bytes", bytesText(g.values.bytes[v]));
    if (!isLastPass()) return;
    if (root !== v) addRow(list, "lies in", valueLine(root));
    if (g.values.offset[root] >= 0) addRow(list, "address", "0x" + g.values.offset[root].toString(16));
    else addRow(list, "address", "not in the arena");
    if (g.values.until[root] >= 0)
        addRow(list, "alive", "steps " + g.values.from[root] + " to " + g.values.until[root]);
}

function detailsOfValue(v) {
    const list = element("dl");
    addRow(list, "type", texts[g.values.type[v]]);
    addRow(list, "output", outputNames(v));
    addRow(list, "made by", nodeLine(g.values.node[v]));
    addBuffer(list, v);
    return [
        element("h2", {}, "value " + texts[g.values.name[v]]), list, pathButtons(g.values.node[v]),
        ...section("Read by", readersOf(g, v), nodeLine, 30), ...keepersOfBuffer(v), ...pathList()
    ];
}

/* ---- nodes ---- */

function parameterLink(p) {
    return link("p", p, texts[planOf(state.plan).parameters.path[p]]);
}

function scopeLink(s) {
    return link("s", s, scopeName(g, s));
}

function timeOfNode(i) {
    const us = g.nodes.us[i];
    return us < 0 || g.time.kind === "steps" ? "" : timeText(us) + " (" + g.time.kind + ")";
}

function passesOfNode(i) {
    const first = g.nodes.first[i], last = g.nodes.last[i];
    if (first === 0 && last === g.last) return "";
    return g.passes[first] + (last === g.last ? ", since then" : " until before " + g.passes[last + 1]);
}

function addNodeRows(list, i) {
    const parameter = g.nodes.parameter[i], step = g.nodes.step[i];
    addRow(list, "scope", scopeLink(g.nodes.scope[i]));
    addRow(list, "phase", PHASE_NAMES[g.nodes.phase[i]]);
    addRow(list, "attributes", texts[g.nodes.attrs[i]]);
    if (isLastPass()) {
        addRow(list, "kernel", texts[g.nodes.kernel[i]]);
        addRow(list, "declined", texts[g.nodes.declined[i]]);
        addRow(list, "step", step < 0 ? "" : step + (g.nodes.lane[i] === 1 ? " (communication)" : ""));
        addRow(list, "time", timeOfNode(i));
        addRow(list, "waits for", g.nodes.waits_for[i] < 0 ? "" : nodeLine(g.nodes.waits_for[i]));
    }
    addRow(list, "work", g.nodes.flop[i] > 0 ? flopText(g.nodes.flop[i]) : "");
    addRow(list, "parameter", parameter < 0 ? "" : parameterLink(parameter));
    addRow(list, "source", texts[g.nodes.source[i]]);
    addRow(list, "made by pass", passesOfNode(i));
    addRow(list, "change", changeTextOf(i));
}

function detailsOfNode(i) {
    const list = element("dl"), results = resultsOf(g, i), why = texts[g.nodes.collective[i]];
    addNodeRows(list, i);
    const made = [element("h2", {}, nodeName(g, i)), list];
    if (why) made.push(element("h3", {}, "Why this collective is here"), element("p", {}, why));
    made.push(pathButtons(i), ...section("Operands", operandsOf(g, i), valueLine, 30));
    for (const v of results) {
        const rows = element("dl");
        addRow(rows, "output", outputNames(v));
        addBuffer(rows, v);
        made.push(element("h3", {}, "Result "),
                  element("p", {}, link("v", v, texts[g.values.name[v]]), " " + texts[g.values.type[v]]),
                  rows, ...section("Read by", readersOf(g, v), nodeLine, 30), ...keepersOfBuffer(v));
    }
    return [...made, ...pathList()];
}

/* ---- paths ---- */

function pathButtons(i) {
    const line = element("div", {class: "do"}, button("path-start", "Path from here"));
    if (state.start >= 0 && state.start !== i)
        line.append(button("path-end", "Path from " + cut(nodeName(g, state.start), 24) + " to here"));
    return line;
}

function pathList() {
    if (!state.path.length)
        return state.noPath ? [element("p", {role: "status"}, "No path leads from one to the other.")] : [];
    return section("Path, " + countText(state.path.length, "node"), state.path, nodeLine, 200);
}

function selectedNode() {
    const {kind, id} = state.selection || {};
    return kind === "node" ? id : kind === "value" ? g.values.node[id] : -1;
}

/* What a path that has begun waits for. */
function awaitedEnd() {
    if (state.start < 0 || state.path.length) return [];
    const said = "A path begins at " + cut(nodeName(g, state.start), 40) +
                 ". Select where it ends, then press p. Escape forgets it.";
    return [element("p", {id: "awaited", role: "status"}, said)];
}

/* Along data from the start to the selection, or from the selection to the start. */
function findPath() {
    const end = selectedNode();
    if (end < 0 || state.start < 0) return;
    const there = pathBetween(g, state.start, end);
    state.path = there.length ? there : pathBetween(g, end, state.start);
    state.noPath = !state.path.length;
    change("lit");
}

/* ---- nothing selected: the whole ---- */

function detailsOfGraph() {
    const list = element("dl"), plan = planOf(state.plan);
    let nodes = 0;
    for (let i = 0; i < g.count; i++) nodes += exists(i);
    addRow(list, "mode", g.mode + (g.phase === "whole" ? "" : ", " + g.phase));
    addRow(list, "nodes", nodes.toLocaleString("en"));
    addRow(list, "arena", bytesText(g.arena));
    addRow(list, "peak", g.peak_step < 0 ? "" : "step " + g.peak_step);
    if (g.time.kind !== "steps") addRow(list, "time", timeText(g.time.total_us) + " (" + g.time.kind + ")");
    addRow(list, "loss", g.loss < 0 ? "" : nodeLine(g.loss));
    const memory = element("dl");
    for (const [what, bytes] of plan.memory) {
        addRow(memory, what.trim(), bytesText(bytes));
        if (what.startsWith(" ")) memory.lastChild.previousSibling.className = "part";
    }
    return [element("h2", {}, "graph " + g.name), list, element("h3", {}, "Memory of the plan"), memory];
}

const OF_WHAT_RUNS = "Kernel, step, time and memory are those of what runs: the last pass has them.";
const SUMS_OF_WHAT_RUNS = "Times and memory are those of what runs, after the last pass.";
const DETAILS = {
    node: detailsOfNode,
    value: detailsOfValue,
    scope: detailsOfScope,
    parameter: detailsOfParameter,
    bucket: detailsOfBucket,
    op: detailsOfOp
};

function drawDetails() {
    const panel = byId("details"), {kind, id} = state.selection || {};
    panel.setAttribute("data-shows", textOfSelection(state.selection));
    panel.replaceChildren(...(kind ? DETAILS[kind](id) : detailsOfGraph()));
    if (!isLastPass())
        panel.append(element("p", {class: "quiet"},
                             kind === "node" || kind === "value" ? OF_WHAT_RUNS : SUMS_OF_WHAT_RUNS));
    panel.hidden = !state.hasPanel;
    byId("panel-button").setAttribute("aria-expanded", state.hasPanel);
    panel.prepend(element("button", {
                      type: "button",
                      "data-do": "panel",
                      class: "close",
                      "aria-label": "Close the details",
                      title: "Close (d)"
                  },
                          "\u00d7"),
                  ...awaitedEnd());
    const title = (kind ? "selected: " : "") + panel.querySelector("h2").textContent;
    if (byId("status").textContent !== title) byId("status").textContent = title; // what a screen reader says
}
