import { errorText, isApiError, type ApiClient } from '../../api/client.ts';
import type { PlacedPlugin } from './composition.ts';

/** Served by `oarlock dev`. */
const path = '/oarlock/v1/reloads';

/** The duration of a reload in milliseconds, or why the previous version keeps running: lines with file, line and column. */
export type ReloadResult = { readonly ms: number } | { readonly error: string };

/** Returns the names of the plugins that the user may reload. A server without the path, or a user without the permission, has none. */
export async function readReloadable(client: ApiClient, plugins: readonly PlacedPlugin[], signal: AbortSignal): Promise<readonly string[]> {
  if (!plugins.some(({ id }) => id === 'plugin-reload')) return [];
  try {
    return (await client.json<{ readonly names: readonly string[] }>(path, { signal })).names;
  } catch (error) {
    if (isApiError(error, 403, 404)) return [];
    throw error;
  }
}

/** Loads the source of a plugin again. */
export async function reloadPlugin(client: ApiClient, name: string): Promise<ReloadResult> {
  try {
    return await client.json<ReloadResult>(path, { method: 'POST', body: JSON.stringify({ name }) });
  } catch (error) {
    return { error: errorText(error) };
  }
}
