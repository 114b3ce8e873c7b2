"use strict";
// Filter and sort the pairs of a rule. The page is complete without this.
for (const box of document.querySelectorAll(".pairs")) {
  const body = box.querySelector("tbody");
  const rows = Array.from(body.rows);
  const output = box.querySelector("output");
  const whole = output.textContent;
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  box.querySelector(".filter").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => texts.get(row).includes(word));
      shown += row.hidden ? 0 : 1;
    }
    output.textContent = words.length ? `${shown} of ${rows.length} shown` : whole;
  });

  const heads = Array.from(box.querySelectorAll("th"));
  let first = 0;
  for (const head of heads) {
    const place = first;
    first += head.colSpan;
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => Array.from(row.cells).slice(place, place + head.colSpan).map((cell) => cell.textContent);
      const keys = new Map(rows.map((row) => [row, key(row)]));
      rows.sort((one, other) => (down ? -1 : 1) * compare(keys.get(one), keys.get(other)));
      body.append(...rows);
    });
  }
}

function compare(one, other) {
  for (let i = 0; i < one.length; i += 1) {
    const both = one[i] !== "" && other[i] !== "" && [Number(one[i]), Number(other[i])];
    const numbers = both && both.every((number) => !Number.isNaN(number));
    const sign = numbers ? both[0] - both[1] : one[i].localeCompare(other[i]);
    if (sign) return sign;
  }
  return 0;
}

// A link to a rule opens its card; a printed page has all broken ones open already.
function open() {
  const card = document.getElementById(location.hash.slice(1));
  if (card instanceof HTMLDetailsElement) card.open = true;
}
addEventListener("hashchange", open);
open();
