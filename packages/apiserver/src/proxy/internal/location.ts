/** How links of a server behind a proxy are turned into links through it. */
export interface LinkRewriting {
  /** What stands in front of the server's own paths on this side: `/api/v1/namespaces/a/pods/b/proxy`. */
  readonly prefix: string;
  /** `host:port` by which the server itself is known. */
  readonly host: string;
}

/**
 * A link as the client has to follow it. Only links to the same server by an absolute path change: those elsewhere lead there, and
 * relative ones lead through the proxy already. As upstream's proxy transport does it.
 */
export function rewriteLink(link: string, { prefix, host }: LinkRewriting, requestHost: string | undefined): string {
  const absolute = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)(.*)$/is.exec(link) ?? /^\/\/([^/?#]*)(.*)$/s.exec(link);
  const there = absolute?.[1] ?? '';
  if (there !== '' && there !== host && there !== requestHost) return link;
  const rest = absolute === null ? link : (absolute[2] ?? '');
  if (!rest.startsWith('/')) return link;
  if (rest === prefix || rest.startsWith(`${prefix}/`)) return rest;
  return `${prefix}${rest}`;
}
