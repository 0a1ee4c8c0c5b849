/** Time in milliseconds between two paints for changes that arrive all the time. People do not read faster. */
const minIntervalMs = 250;

/**
 * Returns a function that calls work before the next paint: at once after a pause, otherwise at an interval, so that input is handled between. In a hidden tab
 * work waits until the tab is shown.
 */
export function paintSchedule(): (work: () => void) => void {
  let last = Number.NEGATIVE_INFINITY;
  return (work) => {
    const paint = () =>
      requestAnimationFrame(() => {
        last = performance.now();
        work();
      });
    const wait = last + minIntervalMs - performance.now();
    if (wait <= 0) paint();
    else setTimeout(paint, wait);
  };
}
