(function () {
  "use strict";
  function key(row, column) { return row.cells[column].dataset.key; }
  function compare(a, b) {
    if (a === "" || b === "") return (a === "") - (b === "");
    var x = Number(a), y = Number(b);
    if (!isNaN(x) && !isNaN(y)) return x - y;
    return a.localeCompare(b, undefined, { numeric: true });
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = Array.from(table.tHead.rows[0].cells), body = table.tBodies[0];
    heads.forEach(function (head, column) {
      head.querySelector("button").addEventListener("click", function () {
        var up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach(function (h) { h.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        Array.from(body.rows).sort(function (a, b) {
          var x = key(a, column), y = key(b, column);
          if (x === "" || y === "") return compare(x, y);
          return up ? compare(x, y) : compare(y, x);
        }).forEach(function (row) { body.appendChild(row); });
      });
    });
  });
  var search = document.getElementById("search");
  if (search) search.addEventListener("input", function () {
    var wanted = search.value.trim().toLowerCase(), shown = 0;
    var rows = document.querySelectorAll("table.sortable tbody tr");
    Array.from(rows).forEach(function (row) {
      row.hidden = wanted !== "" && row.textContent.toLowerCase().indexOf(wanted) < 0;
      if (!row.hidden) shown += 1;
    });
    document.getElementById("found").textContent = wanted ? shown + " of " + rows.length : "";
  });
})();
