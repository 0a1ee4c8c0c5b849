import { errorText } from '@oarlock/primitives/error-text';
import type { Client } from '@oarlock/spi/client';

/** Returns the response to `/readyz?verbose`, also that of a server that is not ready. */
export async function readinessOf(client: Client): Promise<string> {
  try {
    return String(await client.raw('GET', '/readyz?verbose'));
  } catch (error) {
    // the client quotes a body that is no Status
    const [, quoted] = /^an error on the server \((".*")\) has prevented the request from succeeding$/.exec(errorText(error)) ?? [];
    if (quoted === undefined) throw error;
    return JSON.parse(quoted) as string;
  }
}

/** Returns the names of the failed checks in a response to `/readyz?verbose`. Checks that are shown but do not count, such as those of plugins, are left out. */
export const failedChecks = (text: string): readonly string[] =>
  text.split('\n').flatMap((line) => /^\[-\](\S+)(?!\S)(?! unhealthy, not counted)/.exec(line)?.[1] ?? []);
