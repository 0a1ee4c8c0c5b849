/**
 * Calls `next` with the value: immediately if it is known, or when the promise resolves. Request paths use it instead of `await` where most requests
 * do not wait, because each `await` costs about a microsecond.
 */
export function continueWith<T, R>(value: T | Promise<T>, next: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** Calls `cleanup` when `work` has ended, with or without an error. Returns a promise only if `work` does. */
export function withCleanup<T>(work: () => T | Promise<T>, cleanup: () => void): T | Promise<T> {
  let result: T | Promise<T>;
  try {
    result = work();
  } catch (error) {
    cleanup();
    throw error;
  }
  if (result instanceof Promise) return result.finally(cleanup);
  cleanup();
  return result;
}
