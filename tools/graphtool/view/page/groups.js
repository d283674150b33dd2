/* groups.js - details of what has several nodes: a scope, a parameter, a bucket, an op. */
function sumOver(belongs) {
    const sum = {nodes: 0, bytes: 0, us: 0, flop: 0};
    for (let i = 0; i < g.count; i++) {
        if (!exists(i) || !belongs(i)) continue;
        sum.nodes++;
        sum.us += Math.max(0, g.nodes.us[i]);
        sum.flop += Math.max(0, g.nodes.flop[i]);
        for (const v of resultsOf(g, i))
            if (isBuffer(g, v)) sum.bytes += g.values.bytes[v];
    }
    return sum;
}

function addSums(list) {
    const sum = sumOver(nodeTest(state.selection));
    addRow(list, "nodes", sum.nodes.toLocaleString("en"));
    if (isLastPass()) addRow(list, "new buffers", bytesText(sum.bytes));
    if (isLastPass() && g.time.kind !== "steps")
        addRow(list, "time", timeText(sum.us) + " (" + g.time.kind + ")");
    if (sum.flop) addRow(list, "work", flopText(sum.flop));
}

function detailsOfScope(s) {
    const list = element("dl"), same = g.scopes.same[s], copies = [];
    for (let c = 0; c < g.scopes.count; c++)
        if (g.scopes.same[c] === same && c !== s) copies.push(c);
    addSums(list);
    const buttons = element("div", {class: "do"}, button("toggle", isOpen(s) ? "Close" : "Open"));
    if (copies.length)
        buttons.append(button("loose", state.loose.has(same) ? "Draw equal scopes once"
                                                             : "Draw each of the " + (copies.length + 1)));
    return [
        element("h2", {}, "scope " + scopeName(g, s)), list, buttons,
        ...section("Equal to", copies, scopeLink, 60),
        ...section("In it", [...listOf(g.scopes.below, s)], scopeLink, 60)
    ];
}

function selectedNodes() {
    const belongs = nodeTest(state.selection), all = [];
    for (let i = 0; i < g.count; i++)
        if (exists(i) && belongs(i)) all.push(i);
    return all;
}

function detailsOfParameter(p) {
    const {parameters, buckets} = planOf(state.plan), list = element("dl"), bucket = parameters.bucket[p];
    addRow(list, "type", texts[parameters.type[p]]);
    addRow(list, "bytes", bytesText(parameters.bytes[p]));
    addRow(list, "bucket", bucket < 0 ? "" : link("b", bucket, texts[buckets.name[bucket]]));
    addRow(list, "subgraph", planOf(state.plan).subgraphs[parameters.subgraph[p]] || "");
    return [
        element("h2", {}, texts[parameters.kind[p]] + " " + texts[parameters.path[p]]), list,
        ...section("Used by", selectedNodes(), nodeLine, 60)
    ];
}

function detailsOfBucket(b) {
    const {parameters, buckets} = planOf(state.plan), list = element("dl"), members = [];
    for (let p = 0; p < parameters.path.length; p++)
        if (parameters.bucket[p] === b) members.push(p);
    addRow(list, "bytes", bytesText(buckets.bytes[b]));
    addRow(list, "subgraph", planOf(state.plan).subgraphs[buckets.subgraph[b]] || "");
    return [
        element("h2", {}, "bucket " + texts[buckets.name[b]]), list,
        ...section("Parameters", members, parameterLink, 200)
    ];
}

function detailsOfOp(op) {
    const list = element("dl");
    addSums(list);
    return [element("h2", {}, "op " + texts[op]), list, ...section("Nodes", selectedNodes(), nodeLine, 100)];
}
