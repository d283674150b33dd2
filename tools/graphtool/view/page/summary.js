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
    const sign = b > a ? "+" : "\u2212", part = a > 0 ? 100 * Math.abs(b - a) / a : 0;
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

/* What runs at the peak of a graph; its node, as a link that shows it in its plan. */
function peakCell(side, plan, number) {
    if (!side) return "";
    const graph = number >= 0 ? graphOf(plan, number) : null;
    const i =
        graph ? graph.nodes.step.findIndex((s, at) => s === side.step && graph.nodes.last[at] === graph.last)
              : -1;
    const made = element("span", {}, bytesText(side.bytes) + " at step " + side.step + " of " + side.steps);
    if (i >= 0)
        made.append(": ", element("button",
                                  {type: "button", class: "link", "data-peak": [plan, number, i].join(".")},
                                  nodeName(graph, i)));
    return made;
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
        const numbers = graphs[at].graphs, {first, second} = peak;
        rows.push([
            peak.graph + ": peak", peakCell(first, 0, numbers[0]), peakCell(second, 1, numbers[1]),
            first && second ? gapText("bytes", first.bytes, second.bytes) : ""
        ]);
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
        summaryTable(name, ["scope", "op", "A: bytes in buffers", "B: bytes in buffers", "difference"], rows,
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
