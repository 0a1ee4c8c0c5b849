/** How the address of the page signs a user in. */
export type SignInAddress =
  | { readonly link: string }
  | { readonly code: string; readonly state: string }
  /** The error code of the OIDC provider. */
  | { readonly error: string };

/**
 * Returns the secret of a sign-in link, or the response of an OIDC provider (OpenID Connect Core 1.0, section 3.1.2.5); undefined for other addresses.
 * Descriptions of errors are left out, because a link of anyone can contain them.
 */
export function signInAddress({ hash, search }: { readonly hash: string; readonly search: string }): SignInAddress | undefined {
  const link = /^#\/sign-in\/([\w-]+)$/.exec(hash)?.[1];
  if (link !== undefined) return { link };
  const parameters = new URLSearchParams(search);
  const [code, state, error] = ['code', 'state', 'error'].map((name) => parameters.get(name));
  if (error) return { error: /^\w{1,64}$/.test(error) ? error : 'invalid_response' };
  return code && state ? { code, state } : undefined;
}

const positionKey = 'oarlock-sign-in-position';

/** Keeps the position of the page while the user is at the provider. */
export const keepPosition = (hash: string): void => sessionStorage.setItem(positionKey, hash);

/** Returns the position that the page had before the user went to the provider, once. */
export function takePosition(): string {
  const kept = sessionStorage.getItem(positionKey) ?? '';
  sessionStorage.removeItem(positionKey);
  return kept.startsWith('#/') && !kept.startsWith('#/sign-in/') ? kept : '#/';
}
