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

/* New buffers are summed over the whole step: they are not in memory at one time, as the arena is. */
const SUM_COLUMNS = [
    ["time", "time"], ["% of time", "share"], ["nodes", "number"], ["new buffers", "bytes"],
    ["% of buffers", "share"], ["work", "flop"]
];

/* Without times, or without counted work, there are no such columns. */
function sumColumns() {
    return SUM_COLUMNS.filter(c => (!c[0].includes("time") || g.time.kind !== "steps") &&
                                   (c[0] !== "work" || g.nodes.flop.some(n => n > 0)));
}

function share(part, all) {
    return all > 0 ? 100 * part / all : 0;
}

/* Rows of sums, with their shares of the whole: that is the root's. */
function sumRowsOf(sums, key, nameOfKey, isLit) {
    const all = sumRows(null, () => 0).get(0) || {us: 0, bytes: 0};
    return [...sums].map(([number, sum]) => {
        const cells = {
            "time": sum.us,
            "% of time": share(sum.us, all.us),
            "nodes": sum.nodes,
            "new buffers": sum.bytes,
            "% of buffers": share(sum.bytes, all.bytes),
            "work": sum.flop
        };
        return {
            key: key + number,
            cells: [nameOfKey(number), ...sumColumns().map(c => cells[c[0]])],
            isLit: isLit(number, sum)
        };
    });
}

function opRows() {
    return sumRowsOf(sumRows(null, i => g.nodes.op[i]), "o", op => texts[op], (op, sum) => sum.isLit);
}

/* A scope has all below it. */
function scopeRows() {
    const chosen = state.selection && state.selection.kind === "scope" ? state.selection.id : -1;
    return sumRowsOf(sumRows(g.scopes.parent, i => g.nodes.scope[i]), "s", s => texts[g.scopes.path[s]],
                     (s, sum) => chosen >= 0 ? s === chosen : sum.isLit);
}

const NODE_COLUMNS = [
    ["node"], ["scope"], ["phase"], ["time", "time"], ["% of time", "share"], ["bytes of results", "bytes"],
    ["type"], ["kernel"], ["step", "number"]
];

function nodeColumns() {
    return NODE_COLUMNS.filter(c => !c[0].includes("time") || g.time.kind !== "steps");
}

function nodeRows() {
    const rows = [], all = g.nodes.us.reduce((sum, us, i) => exists(i) && us > 0 ? sum + us : sum, 0);
    for (let i = 0; i < g.count; i++) {
        if (!exists(i)) continue;
        const cells = [nodeName(g, i), texts[g.scopes.path[g.nodes.scope[i]]], PHASE_NAMES[g.nodes.phase[i]]];
        const us = g.nodes.us[i], bytes = resultsOf(g, i).reduce((sum, v) => sum + g.values.bytes[v], 0);
        if (g.time.kind !== "steps") cells.push(us, us < 0 ? -1 : share(us, all));
        cells.push(bytes, mainType(i), texts[g.nodes.kernel[i]], g.nodes.step[i]);
        rows.push({key: "n" + i, isLit: lit.nodes[i], cells});
    }
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
                texts[parameters.path[p]], texts[parameters.kind[p]], texts[parameters.type[p]],
                parameters.bytes[p], subgraphs[parameters.subgraph[p]] || "",
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

/* by: names of the columns that sort at first, the first one that is there. */
const TABLES = {
    ops: {name: "By op", columns: () => [["op"], ...sumColumns()], rows: opRows, by: ["time", "new buffers"]},
    scopes: {
        name: "By scope",
        columns: () => [["scope"], ...sumColumns()],
        rows: scopeRows,
        by: ["time", "scope"]
    },
    nodes: {name: "Nodes", columns: nodeColumns, rows: nodeRows, by: ["step"], isUp: true},
    parameters: {
        name: "Parameters",
        columns: () => [["parameter"], ["kind"], ["type"], ["bytes", "bytes"], ["subgraph"], ["bucket"]],
        rows: parameterRows,
        by: ["parameter"]
    },
    buckets: {
        name: "Buckets",
        columns: () => [["bucket"], ["bytes", "bytes"], ["subgraph"], ["number", "number"], ["parameters"]],
        rows: bucketRows,
        by: ["bucket"]
    },
};

/* How a table is sorted: at first, and where the graph has other columns, as its `by` says. */
function sortedOf(table) {
    const all = table.columns(), names = all.map(c => c[0]).join();
    if (table.names !== names) {
        const by = all.findIndex(c => c[0] === table.by.find(name => all.some(has => has[0] === name)));
        table.names = names;
        table.sorted = {by, isUp: !all[by][1] || !!table.isUp, page: 0};
    }
    return table.sorted;
}

/* The sum of columns that have no other: those of parameters and buckets. */
function totalRow(table, rows) {
    if (table !== TABLES.parameters && table !== TABLES.buckets) return [];
    const made = element("tr");
    table.columns().forEach((c, at) => {
        const isSum = c[1] === "bytes" || c[1] === "number";
        made.append(cellOf(c, isSum ? rows.reduce((sum, row) => sum + row.cells[at], 0)
                              : at  ? ""
                                    : "in all"));
    });
    return [element("tfoot", {}, made)];
}

function drawTables() {
    const table = TABLES[state.table];
    byId("table").value = state.table;
    const rows = table.rows(), made = pagedTable(table.columns(), rows, sortedOf(table), table.name);
    made[1].append(...totalRow(table, rows));
    byId("rows").replaceChildren(...made);
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
        "click", e => turnTable(e, TABLES[state.table].columns(), sortedOf(TABLES[state.table])));
}
