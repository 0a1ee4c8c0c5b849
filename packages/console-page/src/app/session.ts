import { isApiError, type ApiClient, type RequestOptions } from '../api/client.ts';
import { newPageKey, storePageKey } from '../api/page-key.ts';

export interface ClusterInfo {
  readonly name: string;
  readonly version: string;
  readonly url: string;
}
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  readonly expiresAt: number;
}
export interface SessionInfo {
  readonly cluster?: ClusterInfo;
  readonly user?: User;
  /** `link`: users sign in with a link only. */
  readonly signIn?: 'any' | 'link';
}

const path = '/console/session';

/** Returns the user of the session, if it is valid. */
export async function currentSession(client: ApiClient): Promise<SessionInfo> {
  try {
    return await client.json<SessionInfo>(path);
  } catch (error) {
    if (isApiError(error, 401)) return {};
    throw error;
  }
}

/** Signs in with the secret of a link, which is valid once. */
export const signInWithLink = (client: ApiClient, secret: string): Promise<SessionInfo> =>
  signIn(client, { body: JSON.stringify({ link: secret }) });

/** Signs in with a bearer token, or with the client certificate of the connection. */
export const signInWithCredentials = (client: ApiClient, token?: string): Promise<SessionInfo> =>
  signIn(client, token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } });

/** Begins a session with a new key of the page. */
async function signIn(client: ApiClient, { headers, body }: Pick<RequestOptions, 'headers' | 'body'>): Promise<SessionInfo> {
  const key = newPageKey();
  const session = await client.json<SessionInfo>(path, {
    method: 'POST',
    headers: { ...headers, 'X-Oarlock-Console': key },
    ...(body !== undefined && { body }),
  });
  storePageKey(key);
  return session;
}

export const signOut = (client: ApiClient): Promise<unknown> => client.json(path, { method: 'DELETE' });
