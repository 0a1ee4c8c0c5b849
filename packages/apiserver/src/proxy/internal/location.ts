/** The addresses by which links of a proxied server are rewritten to links through the proxy. */
export interface LinkRewriting {
  /** The path prefix of the server at the proxy, such as `/api/v1/namespaces/a/pods/b/proxy`. */
  readonly prefix: string;
  /** The `host:port` of the proxied server. */
  readonly host: string;
}

/**
 * Returns a link through the proxy, as upstream's proxy transport does. Only links to the same server with an absolute path are changed, because
 * relative links lead through the proxy already.
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
