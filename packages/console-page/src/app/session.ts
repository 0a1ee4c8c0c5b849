import { isApiError, type ApiClient, type RequestOptions } from '../api/client.ts';
import { text } from '../text/en.ts';
import { keepSignInKey, newPageKey, storePageKey, takeSignInKey } from '../api/page-key.ts';
import type { SignInAddress } from './sign-in-address.ts';

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
  /** The OIDC provider at which users can sign in, if one is configured. */
  readonly oidc?: { readonly name: string };
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
const signInWithLink = (client: ApiClient, secret: string): Promise<SessionInfo> =>
  signIn(client, { body: JSON.stringify({ link: secret }) });

/** Signs in with a bearer token, or with the client certificate of the connection. */
export const signInWithCredentials = (client: ApiClient, token?: string): Promise<SessionInfo> =>
  signIn(client, token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } });

/**
 * Returns the address of the OIDC provider at which the user signs in, for a new key of the page: only this tab can finish the sign-in. The key replaces
 * that of the current session when the user has signed in, so that a sign-in that is not finished ends no session.
 */
export async function beginOidcSignIn(client: ApiClient): Promise<string> {
  const key = newPageKey();
  const { url } = await client.json<{ readonly url: string }>('/console/oidc', { method: 'POST', headers: { 'X-Oarlock-Console': key } });
  keepSignInKey(key);
  return url;
}

/** Signs in with the code and the state that the OIDC provider returned, which are valid once, and for the key that began. */
const finishOidcSignIn = (client: ApiClient, response: { readonly code: string; readonly state: string }): Promise<SessionInfo> =>
  signIn(client, { body: JSON.stringify(response) }, takeSignInKey());

/**
 * Signs in with the link or response in the address. A link does not replace the session of a user: with the link of an attacker, the user would continue in
 * the name of the attacker.
 * @throws Error if the link, the code or the state is not valid, or if the provider reported an error
 */
export async function signInBy(client: ApiClient, address: SignInAddress, current: SessionInfo): Promise<SessionInfo> {
  if ('code' in address) return finishOidcSignIn(client, address);
  if ('error' in address) throw new Error(address.error);
  if (current.user !== undefined) throw new Error(text.signIn.signedIn(current.user.name));
  return signInWithLink(client, address.link);
}

/** Begins a session with another key of the page. */
async function signIn(
  client: ApiClient,
  { headers, body }: Pick<RequestOptions, 'headers' | 'body'>,
  key = newPageKey(),
): Promise<SessionInfo> {
  const session = await client.json<SessionInfo>(path, {
    method: 'POST',
    headers: { ...headers, 'X-Oarlock-Console': key },
    ...(body !== undefined && { body }),
  });
  storePageKey(key);
  return session;
}

export interface SignedOut {
  /** Where the user can sign out at the OIDC provider as well, if the session began there. */
  readonly logoutUrl?: string;
}

export const signOut = (client: ApiClient): Promise<SignedOut> => client.json(path, { method: 'DELETE' });
