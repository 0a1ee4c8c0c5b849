/** Returns the names of the failed checks in a response to `/readyz?verbose`. Checks that are shown but do not count, such as those of plugins, are left out. */
export const failedChecks = (text: string): readonly string[] =>
  text.split('\n').flatMap((line) => /^\[-\](\S+)(?!\S)(?! unhealthy, not counted)/.exec(line)?.[1] ?? []);
