/** Describes how links of a proxied server become links through the proxy. */
export interface LinkRewriting {
  /** The prefix of the server's paths at the proxy: `/api/v1/namespaces/a/pods/b/proxy`. */
  readonly prefix: string;
  /** The `host:port` of the server. */
  readonly host: string;
}

/**
 * Returns the link through the proxy, as upstream's proxy transport. Only links with an absolute path to the same server change: relative links
 * lead through the proxy already.
 */
export function rewriteLink(link: string, { prefix, host }: LinkRewriting, requestHost: string | undefined): string {
  const absolute = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)(.*)$/is.exec(link) ?? /^\/\/([^/?#]*)(.*)$/s.exec(link);
  const linkHost = absolute?.[1] ?? '';
  if (linkHost !== '' && linkHost !== host && linkHost !== requestHost) return link;
  const rest = absolute === null ? link : (absolute[2] ?? '');
  if (!rest.startsWith('/')) return link;
  if (rest === prefix || rest.startsWith(`${prefix}/`)) return rest;
  return `${prefix}${rest}`;
}
