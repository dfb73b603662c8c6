/* The table of transactions, each with a timeline. */
const drawSpans = (spans, length) => {
  const lane = el("div", "lane");
  for (const [begun, ended, outcome, row] of spans) {
    const bar = el("span", `span ${outcome}`);
    bar.style.left = `${100 * begun / length}%`;
    bar.style.width = `${100 * Math.max(ended - begun, 0) / length}%`;
    bar.title = `${outcome}: ${(ended - begun).toLocaleString("en")} ms`;
    if (row >= 0) bar.addEventListener("click", (event) => { event.stopPropagation(); jump(row); });
    lane.append(bar);
  }
  return lane;
};

const drawTransactions = ({ columns, rows, length, more }) => {
  const box = $("transactions");
  box.hidden = !rows.length;
  if (!rows.length) return;
  const wrong = rows.filter(({ cells }) => cells[cells.length - 1][0]).length;
  box.open = wrong > 0;
  box.querySelector("summary").textContent = `Transactions: ${counted(rows.length + more, "transactional id")}${wrong ? `, ${wrong} with an open or hanging one` : ""}`;
  box.querySelector("thead").append(el("tr", "", ...columns.map((name) => el("th", "", name))));
  for (const { cells, row, spans } of rows) {
    const made = el("tr", "", ...cells.map(([text, style]) => el("td", style, text)), el("td", "", drawSpans(spans, length)));
    if (row >= 0) made.addEventListener("click", () => jump(row));
    box.querySelector("tbody").append(made);
  }
  if (more) box.append(el("p", "dim", `${counted(more, "more transactional id")} not shown`));
};
