/** Time in milliseconds after which work that waits for an idle page is done in any case. */
const maxIdleWaitMs = 250;
/** Time in milliseconds for which the page works before it lets the browser handle input and paint. */
const maxWorkMs = 8;

/** Resolves when the browser has nothing else to do, or after a short time. */
export function whenIdle(): Promise<void> {
  return new Promise((resolve) => {
    // absent in Safari, and outside of browsers
    const { requestIdleCallback: onIdle } = globalThis as {
      requestIdleCallback?(work: () => void, options: { readonly timeout: number }): number;
    };
    if (onIdle === undefined) setTimeout(resolve);
    else onIdle(resolve, { timeout: maxIdleWaitMs });
  });
}

/** Returns a function that lets the browser handle input and paint, if the page has worked for long since it last did. */
export function newYield(now: () => number = () => performance.now()): () => Promise<void> | undefined {
  let began = now();
  return () => {
    if (now() - began < maxWorkMs) return undefined;
    return new Promise((resolve) => {
      setTimeout(() => {
        began = now();
        resolve();
      });
    });
  };
}
