# counts.awk - one line of what ctest printed: "126 passed, 0 failed, 5 skipped (NAME, ...)". ctest itself counts skipped
# tests as passed. A ctest that was killed leaves tests that did not end: these are told too.
$0 ~ /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
    split($1, place, "/")
    total = place[2]
    if (/ Passed /) passed++
    else if (/\*\*\*Skipped/ || /\(Disabled\)/) names[++skipped] = $4
    else bad[++failed] = $4
}
function list(names, n,    i, all) {
    for (i = 1; i <= n; i++) all = all (i > 1 ? ", " : " (") names[i]
    return n ? all ")" : ""
}
END {
    line = passed + 0 " passed, " failed + 0 " failed" list(bad, failed) ", " skipped + 0 " skipped" list(names, skipped)
    if (passed + failed + skipped < total) line = line ", " total - passed - failed - skipped " did not end"
    print line
}
