/* tables.js - the tables: by op, by scope, all nodes, parameters, buckets. Sums are those of the pass that
 * is shown. */
function sumRows(count, keyOf) {
    const sums = new Map();
    for (let i = 0; i < g.count; i++) {
        if (!exists(i)) continue;
        for (let key = keyOf(i); key >= 0; key = count ? count[key] : -1) {
            let sum = sums.get(key);
            if (!sum) sums.set(key, sum = {nodes: 0, bytes: 0, flop: 0, us: 0, isLit: 0});
            sum.nodes++;
            sum.flop += Math.max(0, g.nodes.flop[i]);
            sum.us += Math.max(0, g.nodes.us[i]);
            sum.isLit |= lit.nodes[i];
            for (let v = g.results.at[i]; v < g.results.at[i + 1]; v++)
                if (isBuffer(g, v)) sum.bytes += g.values.bytes[v];
        }
    }
    return sums;
}

const SUM_COLUMNS = [["nodes", "number"], ["buffers", "bytes"], ["work", "flop"], ["time", "time"]];

/* Without times, or without counted work, there are no such columns. */
function sumColumns() {
    return SUM_COLUMNS.filter(c => (c[0] !== "time" || g.time.kind !== "steps") &&
                                   (c[0] !== "work" || g.nodes.flop.some(n => n > 0)));
}

function sumCells(sum) {
    const cells = {nodes: sum.nodes, buffers: sum.bytes, work: sum.flop, time: sum.us};
    return sumColumns().map(c => cells[c[0]]);
}

function opRows() {
    return [...sumRows(null, i => g.nodes.op[i])].map(
        ([op, sum]) => ({key: "o" + op, cells: [texts[op], ...sumCells(sum)], isLit: sum.isLit}));
}

/* A scope has all below it. */
function scopeRows() {
    const chosen = state.selection && state.selection.kind === "scope" ? state.selection.id : -1;
    return [...sumRows(g.scopes.parent, i => g.nodes.scope[i])].map(
        ([s, sum]) => ({
            key: "s" + s,
            cells: [texts[g.scopes.path[s]], ...sumCells(sum)],
            isLit: chosen >= 0 ? s === chosen : sum.isLit,
        }));
}

function nodeRows() {
    const rows = [];
    for (let i = 0; i < g.count; i++)
        if (exists(i))
            rows.push({
                key: "n" + i,
                isLit: lit.nodes[i],
                cells: [
                    nodeName(g, i), texts[g.scopes.path[g.nodes.scope[i]]], PHASE_NAMES[g.nodes.phase[i]],
                    firstType(i), texts[g.nodes.kernel[i]], g.nodes.step[i]
                ]
            });
    return rows;
}

/* Parameters of the nodes that are lit. */
function litParameters() {
    const all = new Set(), {kind, id} = state.selection || {};
    if (kind === "parameter") return all.add(id);
    for (let i = 0; i < g.count; i++)
        if (lit.nodes[i] && g.nodes.parameter[i] >= 0) all.add(g.nodes.parameter[i]);
    return all;
}

function parameterRows() {
    const {parameters, buckets, subgraphs} = planOf(state.plan), marked = litParameters(), rows = [];
    for (let p = 0; p < parameters.path.length; p++)
        rows.push({
            key: "p" + p,
            isLit: marked.has(p),
            cells: [
                texts[parameters.path[p]], texts[parameters.type[p]], parameters.bytes[p],
                subgraphs[parameters.subgraph[p]] || "",
                parameters.bucket[p] < 0 ? "" : texts[buckets.name[parameters.bucket[p]]]
            ]
        });
    return rows;
}

function bucketRows() {
    const {parameters, buckets, subgraphs} = planOf(state.plan),
                                members =
                                    grouped(parameters.bucket, buckets.name.length, parameters.path.length);
    const {kind, id} = state.selection || {},
                 marked = new Set([...litParameters()].map(p => parameters.bucket[p])), rows = [];
    for (let b = 0; b < buckets.name.length; b++) {
        const paths = [...listOf(members, b)].map(p => texts[parameters.path[p]]);
        rows.push({
            key: "b" + b,
            isLit: kind === "bucket" ? b === id : marked.has(b),
            cells: [
                texts[buckets.name[b]], buckets.bytes[b], subgraphs[buckets.subgraph[b]] || "", paths.length,
                cut(paths.join(", "), 150)
            ]
        });
    }
    return rows;
}

const NODE_COLUMNS = [["node"], ["scope"], ["phase"], ["type"], ["kernel"], ["step", "number"]];
const TABLES = {
    ops: {
        name: "By op",
        columns: () => [["op"], ...sumColumns()],
        rows: opRows,
        sorted: {by: 2, isUp: false, page: 0}
    },
    scopes: {
        name: "By scope",
        columns: () => [["scope"], ...sumColumns()],
        rows: scopeRows,
        sorted: {by: 0, isUp: true, page: 0}
    },
    nodes: {name: "Nodes", columns: () => NODE_COLUMNS, rows: nodeRows, sorted: {by: 5, isUp: true, page: 0}},
    parameters: {
        name: "Parameters",
        columns: () => [["parameter"], ["type"], ["bytes", "bytes"], ["subgraph"], ["bucket"]],
        rows: parameterRows,
        sorted: {by: 0, isUp: true, page: 0}
    },
    buckets: {
        name: "Buckets",
        columns: () => [["bucket"], ["bytes", "bytes"], ["subgraph"], ["number", "number"], ["parameters"]],
        rows: bucketRows,
        sorted: {by: 0, isUp: true, page: 0}
    },
};

function drawTables() {
    const table = TABLES[state.table];
    byId("table").value = state.table;
    byId("rows").replaceChildren(...pagedTable(table.columns(), table.rows(), table.sorted, table.name));
    const row = byId("rows").querySelector("tr.lit");
    if (row && table.sorted.isNew) row.scrollIntoView({block: "nearest"});
}

function listenTables() {
    for (const key of Object.keys(TABLES))
        byId("table").append(element("option", {value: key}, TABLES[key].name));
    byId("table").addEventListener("change", e => {
        state.table = e.target.value;
        change("lit");
    });
    byId("rows").addEventListener(
        "click", e => turnTable(e, TABLES[state.table].columns(), TABLES[state.table].sorted));
}
