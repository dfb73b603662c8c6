/* Keyboard access to the marks of pictures: Tab reaches each picture, arrow keys move to the nearest mark, Enter opens its frames. */
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const centerOf = (mark) => { const { x, y, width, height } = mark.getBoundingClientRect(); return [x + width / 2, y + height / 2]; };
const marksIn = (box) => [...box.querySelectorAll("svg a")];
const nearest = (marks, [x, y], cost) => {
  let nearestMark = null, lowestCost = Infinity;
  for (const mark of marks) {
    const [left, top] = centerOf(mark), markCost = cost(left - x, top - y);
    if (markCost < lowestCost) [nearestMark, lowestCost] = [mark, markCost];
  }
  return nearestMark;
};
const setTabStop = (mark) => {
  for (const current of mark.ownerSVGElement.querySelectorAll("a[tabindex='0']")) current.setAttribute("tabindex", -1);
  mark.setAttribute("tabindex", 0);
};
/** Redraws pictures. Each gets one tab stop, and the focus stays near where it was. */
export const redrawMarks = (box, draw) => {
  const focused = box.contains(document.activeElement) ? document.activeElement.closest("svg a") : null;
  const previous = focused && [[...box.querySelectorAll("svg")].indexOf(focused.ownerSVGElement), centerOf(focused)];
  draw();
  const pictures = [...box.querySelectorAll("svg")];
  for (const picture of pictures) picture.querySelector("a")?.setAttribute("tabindex", 0);
  const mark = previous && nearest(marksIn(pictures[previous[0]] || box), previous[1], (x, y) => Math.abs(x) + Math.abs(y));
  if (mark) { setTabStop(mark); mark.focus({ preventScroll: true }); }
};
/** Moves to the next mark in the direction of an arrow key; returns false for other keys, or if no mark has the focus. */
export const moveMark = (event, box) => {
  const step = STEPS[event.key], mark = event.target.closest?.("svg a");
  if (!step || !mark || !box.contains(mark)) return false;
  const [dx, dy] = step, container = dx ? mark.ownerSVGElement : box;
  const next = nearest(marksIn(container), centerOf(mark), (x, y) => {
    const ahead = x * dx + y * dy, sideways = Math.abs(dx ? y : x);
    return ahead > 0.5 ? ahead + 4 * sideways : Infinity;
  });
  if (next) {
    setTabStop(next);
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  return true;
};
/** Shows the label of the mark that has the focus or the pointer; screen readers read it from the mark. */
export const describeMarks = (box, text) => {
  text.setAttribute("aria-hidden", "true");
  const focused = () => box.contains(document.activeElement) ? document.activeElement.closest("svg a") : null;
  const show = ({ target }) => { text.textContent = (target.closest?.("svg a") || focused())?.getAttribute("aria-label") || ""; };
  box.addEventListener("focusin", show);
  box.addEventListener("pointerover", show);
  box.addEventListener("focusout", ({ relatedTarget }) => { if (!relatedTarget) text.textContent = ""; });
};
