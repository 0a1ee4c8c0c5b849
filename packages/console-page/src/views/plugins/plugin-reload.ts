import { errorText, isApiError, type ApiClient } from '../../api/client.ts';
import type { PlacedPlugin } from './composition.ts';

/** Served by `oarlock dev`. */
const path = '/oarlock/v1/reloads';

/** The duration of a reload in milliseconds, and the files in which the version differs from the previous one. */
export interface Reload {
  readonly ms: number;
  readonly changes: readonly { readonly file: string; readonly before: string; readonly after: string }[];
}

/** A reload, or why the previous version keeps running: lines with file, line and column. */
export type ReloadResult = Reload | { readonly error: string };

/** The plugins that the user may reload, and the latest reload of each, which also saving a file causes. */
export interface Reloadable {
  readonly names: readonly string[];
  readonly latest: Readonly<Record<string, Reload>>;
}
const none: Reloadable = { names: [], latest: {} };

/** Returns the plugins that the user may reload. A server without the path, or a user without the permission, has none. */
export async function readReloadable(client: ApiClient, plugins: readonly PlacedPlugin[], signal: AbortSignal): Promise<Reloadable> {
  if (!plugins.some(({ id }) => id === 'plugin-reload')) return none;
  try {
    return await client.json<Reloadable>(path, { signal });
  } catch (error) {
    if (isApiError(error, 403, 404)) return none;
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
