/** The name of the key in the storage of the origin. */
export const storageKey = 'oarlock-page-key';
const keyBytes = 32;

/** Returns 256 random bits in base64url. */
export function newPageKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(keyBytes));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');
}

/**
 * Returns the key of the page, which begins and identifies a session together with the cookie. Unlike cookies, the storage of an origin is not shared with
 * servers on other ports of the host. All tabs have the same key, and it is read for each request, because a sign-in in another tab replaces it.
 */
export function storedPageKey(): string {
  const stored = localStorage.getItem(storageKey);
  if (stored !== null && /^[\w-]{43}$/.test(stored)) return stored;
  const created = newPageKey();
  storePageKey(created);
  return created;
}

export const storePageKey = (key: string): void => localStorage.setItem(storageKey, key);

const signInKey = 'oarlock-sign-in-key';

/** Keeps the key of an unfinished sign-in at a provider, for this tab only. */
export const keepSignInKey = (key: string): void => sessionStorage.setItem(signInKey, key);

/** Returns the key of the unfinished sign-in, once; undefined if this tab did not begin one. */
export function takeSignInKey(): string | undefined {
  const kept = sessionStorage.getItem(signInKey) ?? undefined;
  sessionStorage.removeItem(signInKey);
  return kept;
}

/** Returns the WebSocket subprotocol with the key: browsers send no headers with WebSockets. */
export const pageKeyProtocol = (): string => `key.console.oarlock.dev.${storedPageKey()}`;
