/* summary.js - where the page has two plans: both in numbers, and what is alive at their peaks. All sums are
 * those that `graphtool diff` has. */
const NUMBER_TEXTS = {
    bytes: bytesText,
    flop: flopText,
    count: n => n.toLocaleString("en"),
    time: timeText
};

/* "+1.5 MiB (+10.0 %)"; "" where nothing differs. */
function gapText(unit, a, b) {
    if (a === b) return "";
    const sign = b > a ? "+" : "\u2212", part = a > 0 && b > 0 ? 100 * Math.abs(b - a) / a : 0;
    return sign + NUMBER_TEXTS[unit](Math.abs(b - a)) + (part ? " (" + sign + part.toFixed(1) + " %)" : "");
}

function sumCellsOf(name, unit, a, b) {
    const text = n => n < 0 ? "" : NUMBER_TEXTS[unit](n);
    return [name, text(a), text(b), gapText(unit, Math.max(0, a), Math.max(0, b))];
}

function summaryTable(name, head, rows, isNumber) {
    const cell = (what, at) => element("td", isNumber(at) ? {class: "number"} : {}, what);
    const heads = head.map((h, at) => element("th", {scope: "col", class: isNumber(at) ? "number" : ""}, h));
    return element("table", {"aria-label": name}, element("thead", {}, element("tr", {}, ...heads)),
                   element("tbody", {}, ...rows.map(cells => element("tr", {}, ...cells.map(cell)))));
}

/* The node that runs at the peak of a graph, as a link that shows it in its plan. */
function peakNode(side, plan, number) {
    if (!side || number < 0) return "";
    const graph = graphOf(plan, number), {step, last} = graph.nodes;
    const i = step.findIndex((s, at) => s === side.step && last[at] === graph.last);
    if (i < 0) return "";
    const peak = [plan, number, i].join(".");
    return element("button", {type: "button", class: "link", "data-peak": peak}, nodeName(graph, i));
}

function peakRows(peak, numbers) {
    const sides = [peak.first, peak.second], [a, b] = sides.map(side => side ? side.bytes : -1);
    return [
        sumCellsOf(peak.graph + ": alive at the peak", "bytes", a, b),
        [
            peak.graph + ": step of the peak",
            ...sides.map(side => side ? side.step + " of " + side.steps : ""), ""
        ],
        [
            peak.graph + ": runs at the peak",
            ...sides.map((side, plan) => peakNode(side, plan, numbers[plan])), ""
        ]
    ];
}

/* Times of a graph of both plans, where both are measured. */
function timeRow(peak, numbers) {
    const times = numbers.map((number, plan) => number < 0 ? null : data.plans[plan].graphs[number].time);
    if (times.some(t => !t || t.kind !== "measured")) return [];
    return [sumCellsOf(peak.graph + ": time of a step", "time", times[0].total_us, times[1].total_us)];
}

function summaryRows() {
    const {memory, totals, peaks, graphs} = data.difference;
    const rows = [...memory, ...totals]
                     .filter(row => row.first || row.second)
                     .map(row => sumCellsOf(row.name, row.unit, row.first, row.second));
    peaks.forEach((peak, at) => {
        const numbers = graphs[at].graphs;
        rows.push(...peakRows(peak, numbers));
        rows.push(...timeRow(peak, numbers));
    });
    return rows;
}

const MOST_PEAK_ROWS = 20;

/* What only one of the plans has alive at its peak, or more of; the largest differences first. */
function peakTable(peak) {
    const differ = peak.alive.filter(row => row.bytes[0] !== row.bytes[1]);
    if (!differ.length) return [];
    const count = n => n ? " in " + n : "";
    const rows =
        differ.slice(0, MOST_PEAK_ROWS)
            .map(row => [row.scope || "(top)", row.op, bytesText(row.bytes[0]) + count(row.buffers[0]),
                         bytesText(row.bytes[1]) + count(row.buffers[1]),
                         gapText("bytes", row.bytes[0], row.bytes[1])]);
    const name = "Alive at the peak of " + peak.graph + ", where it differs",
          left = differ.length - rows.length;
    const made = [
        element("h3", {}, name),
        summaryTable(name, ["scope", "op", "A, in buffers", "B, in buffers", "difference"], rows,
                     at => at > 1)
    ];
    if (left > 0) made.push(element("p", {class: "quiet"}, "and " + left + " with smaller differences"));
    return made;
}

function summary() {
    const {peaks} = data.difference;
    if (!peaks) return [];
    return [
        summaryTable("Summary", ["", "A " + data.plans[0].name, "B " + data.plans[1].name, "difference"],
                     summaryRows(), at => at > 0),
        ...peaks.flatMap(peakTable)
    ];
}

function showPeak(text) {
    const [plan, number, node] = text.split(".").map(Number);
    if (state.plan !== plan || state.graph !== number) showOther(plan, number);
    state.tab = "graph";
    select("node", node);
}
