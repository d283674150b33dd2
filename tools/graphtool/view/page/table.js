/* table.js - tables of rows {key, cells, isLit}: the key is a selection ("n12"), and a click on the row
 * selects it. A column is [name, kind]; kinds: "" text, "number", "bytes", "time", "flop", "share", which sort by
 * number. */
const PAGE_ROWS = 200;
const CELL_TEXTS = {
    bytes: bytesText,
    time: n => n < 0 ? "" : timeText(n),
    flop: n => n ? flopText(n) : "",
    share: n => n < 0              ? ""
                : n > 0 && n < 0.1 ? "< 0.1 %"
                                   : n.toFixed(1) + " %",
    number: n => n < 0 ? "" : n.toLocaleString("en", {maximumFractionDigits: 2})
};

function cellOf(column, value) {
    const textOf = CELL_TEXTS[column[1]];
    return element("td", textOf ? {class: "number"} : {}, textOf ? textOf(value) : value);
}

function rowOf(tableColumns, row) {
    const made = element("tr", {"data-select": row.key, class: row.isLit ? "lit" : ""});
    tableColumns.forEach((column, at) => {
        const cell = cellOf(column, row.cells[at]);
        if (at === 0)
            cell.replaceChildren(element("button",
                                         {type: "button", class: "link", "aria-pressed": !!row.isLit},
                                         cell.textContent || "(top)"));
        made.append(cell);
    });
    return made;
}

function headOf(tableColumns, sorted) {
    const row = element("tr");
    tableColumns.forEach((column, at) => {
        const head = element("th", {scope: "col", class: column[1] ? "number" : ""});
        if (TIPS.has(column[0])) head.title = TIPS.get(column[0]);
        if (sorted) {
            const isBy = sorted.by === at;
            if (isBy) head.setAttribute("aria-sort", sorted.isUp ? "ascending" : "descending");
            head.append(element("button", {type: "button", "data-sort": at},
                                column[0] + (isBy ? sorted.isUp ? " \u25b2" : " \u25bc" : "")));
        } else {
            head.append(column[0]);
        }
        row.append(head);
    });
    return element("thead", {}, row);
}

function plainTable(tableColumns, rows) {
    return element("table", {}, headOf(tableColumns),
                   element("tbody", {}, ...rows.map(row => rowOf(tableColumns, row))));
}

/* "blocks/2" before "blocks/10". */
const NATURAL = new Intl.Collator("en", {numeric: true});

/* By a column: numbers descend at first, text ascends. */
function sortRows(rows, sorted) {
    const sign = sorted.isUp ? 1 : -1, by = sorted.by;
    if (by < 0) return rows;
    if (rows.length && typeof rows[0].cells[by] === "string")
        return rows.sort((a, b) => sign * NATURAL.compare(a.cells[by], b.cells[by]));
    return rows.sort((a, b) => sign * (a.cells[by] - b.cells[by]));
}

/* A sorted table, a page of it at a time: that with the first lit row, if the selection is new. `sorted`
 * keeps the state. */
function pagedTable(tableColumns, rows, sorted, name) {
    sortRows(rows, sorted);
    const chosen = textOfSelection(state.selection), at = rows.findIndex(row => row.isLit);
    sorted.isNew = sorted.followed !== chosen && at >= 0;
    if (sorted.isNew) sorted.page = Math.floor(at / PAGE_ROWS);
    sorted.followed = chosen;
    const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
    sorted.page = Math.min(sorted.page, pages - 1);
    const shown = rows.slice(sorted.page * PAGE_ROWS, (sorted.page + 1) * PAGE_ROWS);
    const table = element("table", {"aria-label": name}, headOf(tableColumns, sorted),
                          element("tbody", {}, ...shown.map(row => rowOf(tableColumns, row))));
    const bar = element("p", {class: "quiet"}, countText(rows.length, "row"));
    if (pages > 1)
        bar.append(" ", element("button", {type: "button", "data-page": -1}, "Before"),
                   " page " + (sorted.page + 1) + " of " + pages + " ",
                   element("button", {type: "button", "data-page": 1}, "Next"));
    return [bar, table];
}

/* A click on a head sorts by its column, numbers descending at first; one on "Before" or "Next" turns the
 * page. */
function turnTable(e, tableColumns, sorted) {
    const head = e.target.closest("[data-sort]"), page = e.target.closest("[data-page]"),
          table = e.currentTarget;
    if (page) sorted.page = Math.max(0, sorted.page + Number(page.getAttribute("data-page")));
    if (head) {
        const by = Number(head.getAttribute("data-sort"));
        sorted.isUp = sorted.by === by ? !sorted.isUp : !tableColumns[by][1];
        sorted.by = by;
        sorted.page = 0;
    }
    if (!head && !page) return;
    change("lit");
    const again =
        head ? "[data-sort='" + sorted.by + "']" : "[data-page='" + page.getAttribute("data-page") + "']";
    requestAnimationFrame(
        () => requestAnimationFrame(() => table.querySelector(again).focus())); // the button is a new one
}
