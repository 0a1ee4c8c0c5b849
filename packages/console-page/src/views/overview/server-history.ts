import { isApiError, type ApiClient } from '../../api/client.ts';
import { historyOf, type Sample } from '../../components/sample-history.ts';

interface ServerHistory {
  readonly now: number;
  readonly samples: Readonly<Record<string, readonly Sample[]>>;
}

/**
 * Adds the samples of the last hour that the API server has to those of the page, so that the plots of a page that was just opened begin before it. Their times
 * become those of the browser's clock. Without them, or where the user may not read metrics, the plots have the samples of the page only.
 */
export async function loadServerHistory(
  client: ApiClient,
  { signal, now = Date.now }: { readonly signal: AbortSignal; now?(): number },
): Promise<void> {
  // the path is the user's own: it ignores the headers of `view as`
  if (client.impersonation !== undefined) return;
  try {
    const { now: serverNow, samples } = await client.json<ServerHistory>('/console/history', { signal });
    const offset = now() - serverNow;
    for (const [name, each] of Object.entries(samples))
      historyOf(client).merge(
        name,
        each.map(({ at, value }) => ({ at: at + offset, value })),
      );
  } catch (error) {
    if (!isApiError(error, 403, 404)) throw error;
  }
}
